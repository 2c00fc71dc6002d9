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
type consumerRef struct{ stream, name string }

// creating is for people.
func (r consumerRef) creating() string {
	return "creating consumer " + r.name + " of stream " + r.stream
}

// arrival is what came on a consumer's inbox: either a stream's message with
// its origin, or a status of the server.
type arrival struct {
	msg    *nats.Msg
	origin origin
	status string // "" for a stream's message
}

// origin is what JetStream tells about a delivered message, in the tokens of
// its reply subject.
type origin struct {
	consumerRef
	delivered int
	sequence  uint64
	number    uint64 // the consumer's own count of deliveries
	stored    time.Time
}

// arrival tells a stream's message from a status of the server, and both from
// what anybody else sent to the inbox, which is an error and never answered. A
// stream's message has this consumer's acknowledgement subject as its reply
// subject, the server's status has no reply subject. Nothing else tells them
// apart: headers and body of a stream's message are its publisher's choice.
func (r consumerRef) arrival(m *nats.Msg) (a arrival, err error) {
	if m.Reply == "" {
		if a.status = m.Header.Get("Status"); a.status == "" || len(m.Data) > 0 {
			return a, errors.New("message without an acknowledgement subject")
		}
		a.msg = m
		return a, nil
	}
	o, err := parseOrigin(m.Reply)
	if err == nil && o.consumerRef != r {
		err = fmt.Errorf("message of consumer %.64q of stream %.64q on the inbox of %s of %s", o.name, o.stream, r.name, r.stream)
	}
	return arrival{msg: m, origin: o}, err
}

const ackPrefix = "$JS.ACK."

// parseOrigin reads "$JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<ns>.<pending>",
// or the same with domain and account before the stream. It allocates nothing
// unless it fails.
func parseOrigin(reply string) (o origin, err error) {
	rest, ours := strings.CutPrefix(reply, ackPrefix)
	dots := strings.Count(rest, ".")
	if !ours || dots != 6 && dots < 8 {
		return o, fmt.Errorf("reply subject %.64q is not one of a stream's messages", reply)
	}
	if dots >= 8 {
		_, rest, _ = strings.Cut(rest, ".")
		_, rest, _ = strings.Cut(rest, ".")
	}
	o.stream, rest, _ = strings.Cut(rest, ".")
	o.name, rest, _ = strings.Cut(rest, ".")
	var numbers [4]uint64
	for i := range numbers {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if numbers[i], err = strconv.ParseUint(token, 10, 63); err != nil {
			return o, fmt.Errorf("reading reply subject %.64q: %w", reply, err)
		}
	}
	o.delivered, o.sequence, o.number = int(min(numbers[0], math.MaxInt32)), numbers[1], numbers[2]
	o.stored = time.Unix(0, int64(numbers[3]))
	return o, nil
}
