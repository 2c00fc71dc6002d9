package bus

// Requests for messages of any size are bounded in bytes, too: a server closes
// the connection of a client for which 64 MiB wait, and the client would keep
// in memory what it asked for. (Rows are asked for by number: a stream of them
// holds little, and the server says of each request with a bound that it is done.)

const (
	// pullBytes bounds what one request brings, if that is more than a message.
	pullBytes = 8 << 20
	// besidePayload is more than what a message has beside its payload.
	besidePayload = 64 << 10
)

func (c *Conn) pullBytes() int64 { return max(pullBytes, c.MaxPayload()+besidePayload) }

func hadItsBytes(a arrival) bool { return is409(a, "Message Size Exceeds MaxBytes") }

func hadItsMessages(a arrival) bool { return is409(a, "Batch Completed") }

func is409(a arrival, description string) bool {
	return a.status == "409" && a.msg.Header.Get("Description") == description
}
