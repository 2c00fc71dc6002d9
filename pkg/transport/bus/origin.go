package bus

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// consumerRef names a consumer: whose messages are expected on an inbox.
type consumerRef struct {
	stream, name string
	acks         string // what its acknowledgement subjects begin with
}

const ackPrefix = "$JS.ACK."

func refTo(stream, name string) consumerRef {
	return consumerRef{stream, name, ackPrefix + stream + "." + name + "."}
}

func (r consumerRef) creating() string {
	return "creating consumer " + r.name + " of stream " + r.stream
}

// arrival is what came on a consumer's inbox: either a stream's message or a
// status of the server.
type arrival struct {
	msg     *nats.Msg
	status  string    // "" for a stream's message
	numbers string    // of a stream's message: the end of its acknowledgement subject
	at      time.Time // when it came into this process; only tensor hops know
}

// arrival tells a stream's message from a status of the server, and both from
// what anybody else sent to the inbox, which is an error and never answered. A
// stream's message has an acknowledgement subject of this consumer as its reply
// subject, the server's status has no reply subject. Nothing else tells them
// apart: headers and body of a stream's message are its publisher's choice.
func (r consumerRef) arrival(m *nats.Msg) (arrival, error) {
	if m.Reply == "" {
		return statusOf(m)
	}
	numbers, ours := strings.CutPrefix(m.Reply, r.acks)
	if !ours {
		numbers, ours = r.cutRemote(m.Reply)
	}
	if !ours {
		return arrival{}, fmt.Errorf("reply subject %.80q is not one of consumer %s of stream %s", m.Reply, r.name, r.stream)
	}
	return arrival{msg: m, numbers: numbers}, nil
}

// cutRemote reads the form with a domain and an account before the stream.
func (r consumerRef) cutRemote(reply string) (numbers string, ours bool) {
	rest, ours := strings.CutPrefix(reply, ackPrefix)
	if !ours || strings.Count(rest, ".") < 8 {
		return "", false
	}
	_, rest, _ = strings.Cut(rest, ".")
	_, rest, _ = strings.Cut(rest, ".")
	return strings.CutPrefix(rest, r.acks[len(ackPrefix):])
}

func statusOf(m *nats.Msg) (arrival, error) {
	status := m.Header.Get("Status")
	if status == "" || len(m.Data) > 0 {
		return arrival{}, errors.New("message without an acknowledgement subject")
	}
	return arrival{msg: m, status: status}, nil
}

// deliveries counts from 1; 1 when the number is none.
func (a arrival) deliveries() int {
	first, _, _ := strings.Cut(a.numbers, ".")
	return max(1, int(min(number(first), math.MaxInt32)))
}

// number is 0 for what is none.
func number(digits string) uint64 {
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0
	}
	return n
}

// origin is what JetStream tells about a delivered message.
type origin struct {
	delivered int
	sequence  uint64
	number    uint64 // the consumer's own count of deliveries
	stored    time.Time
}

// origin reads "<delivered>.<stream sequence>.<number>.<nanoseconds>.<pending>".
func (a arrival) origin() (o origin, err error) {
	tokens := [5]string{}
	rest := a.numbers
	for i := range tokens {
		tokens[i], rest, _ = strings.Cut(rest, ".")
	}
	o = origin{a.deliveries(), number(tokens[1]), number(tokens[2]), time.Unix(0, int64(number(tokens[3])))}
	if o.sequence == 0 || o.number == 0 || tokens[4] == "" {
		return o, fmt.Errorf("reply subject %.80q is not one of a stream's messages", a.msg.Reply)
	}
	return o, nil
}
