package cost

// Messages is what a layer takes for the messages of its rows.
type Messages struct {
	// Each are the seconds that one more message makes a layer take, with its answer.
	Each float64
	// Row are those that a row's bytes take, there and back.
	Row float64
}

// Seconds is the time of so many messages with so many rows on the busiest way.
func (m Messages) Seconds(messages, rows int) float64 {
	return m.Each*float64(max(0, messages)) + m.Row*float64(max(0, rows))
}

// Sent is a timer of accesses each of which comes in a message of its own.
type Sent struct {
	Timer
	Messages
}

// Seconds is the access and its message; without rows there is neither.
func (s Sent) Seconds(a Access) float64 {
	if a.Rows <= 0 {
		return 0
	}
	return s.Timer.Seconds(a) + s.Messages.Seconds(1, a.Rows)
}
