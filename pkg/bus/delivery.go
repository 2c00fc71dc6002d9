package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// origin is what JetStream tells about a delivered message, in the tokens of
// its reply subject.
type origin struct {
	delivered int
	sequence  uint64
	consumer  uint64 // the consumer's own count of deliveries
	stored    time.Time
}

// parseOrigin reads "$JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<ns>.<pending>",
// or the same with domain and account before the stream.
func parseOrigin(reply string) (o origin, err error) {
	if !strings.HasPrefix(reply, "$JS.ACK.") {
		return o, fmt.Errorf("reply subject %q is not one of a stream's messages", reply)
	}
	tokens := strings.Split(reply, ".")
	at := 4
	if len(tokens) >= 11 {
		at = 6
	} else if len(tokens) != 9 {
		return o, fmt.Errorf("reply subject %q has %d tokens", reply, len(tokens))
	}
	var numbers [4]uint64
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(tokens[at+i], 10, 64); err != nil {
			return o, fmt.Errorf("reading reply subject %q: %w", reply, err)
		}
	}
	return origin{delivered: int(numbers[0]), sequence: numbers[1], consumer: numbers[2], stored: time.Unix(0, int64(numbers[3]))}, nil
}

// deliveries returns how often a message was delivered, 1 if that is unknown,
// without the allocations of parseOrigin.
func deliveries(reply string) int {
	n := strings.Count(reply, ".") + 1
	skip := 4
	if n >= 11 {
		skip = 6
	}
	for ; skip > 0; skip-- {
		_, reply, _ = strings.Cut(reply, ".")
	}
	token, _, _ := strings.Cut(reply, ".")
	if count, err := strconv.Atoi(token); err == nil {
		return count
	}
	return 1
}

var (
	bodyAck      = []byte("+ACK")
	bodyNak      = []byte("-NAK")
	bodyProgress = []byte("+WPI")
)

// answer tells JetStream an outcome. A lost answer leads to a redelivery,
// which every handler must bear, so it is not waited for.
func (c *Conn) answer(reply string, o Outcome, after time.Duration, reason string) error {
	body := bodyAck // Done; and Late, which must not come again either
	switch o {
	case Retried:
		body = nakBody(after)
	case Poisoned:
		body = []byte(strings.TrimSpace("+TERM " + reason))
	}
	return c.nc.Publish(reply, body)
}

func nakBody(after time.Duration) []byte {
	if after <= 0 {
		return bodyNak
	}
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, after.Nanoseconds())
}

// Delivery is work from a Queue. Exactly one of Ack, Nak and Term ends it;
// without any it goes to a sibling after AckWait.
type Delivery struct {
	Data    []byte
	Headers nats.Header
	Subject string
	// Sequence is the message's place in the stream.
	Sequence uint64
	// Delivered counts deliveries from 1.
	Delivered int
	// Timestamp is the server's, from when the message was stored.
	Timestamp time.Time

	c     *Conn
	reply string
}

func (q *Queue) delivery(m *nats.Msg) (*Delivery, error) {
	o, err := parseOrigin(m.Reply)
	if err != nil {
		return nil, err
	}
	if o.delivered > 1 {
		q.c.obs.Redelivered(m.Subject, o.delivered)
	}
	return &Delivery{
		Data: m.Data, Headers: m.Header, Subject: m.Subject,
		Sequence: o.sequence, Delivered: o.delivered, Timestamp: o.stored,
		c: q.c, reply: m.Reply,
	}, nil
}

// Context returns ctx with the trace context that the message carries.
func (d *Delivery) Context(ctx context.Context) context.Context {
	if d.c.prop == nil || len(d.Headers) == 0 {
		return ctx
	}
	return d.c.prop.Extract(ctx, d.Headers)
}

// Ack says that the work is done. Like the others it is not confirmed: when it
// gets lost, the work comes again.
func (d *Delivery) Ack() error { return d.end(Done, 0, "") }

// Nak gives the work back, to be delivered again after a while.
func (d *Delivery) Nak(after time.Duration) error { return d.end(Retried, after, "") }

// Term says that nobody can do this work.
func (d *Delivery) Term(reason string) error { return d.end(Poisoned, 0, reason) }

// End does what classify.go says about a handler's error, nil included.
func (d *Delivery) End(err error) error {
	outcome, after := classify(err, d.Delivered)
	return d.end(outcome, after, reason(err))
}

// InProgress says that the work goes on: AckWait starts again.
func (d *Delivery) InProgress() error {
	if err := d.c.nc.Publish(d.reply, bodyProgress); err != nil {
		return fmt.Errorf("reporting progress on %s: %w", d.Subject, err)
	}
	return nil
}

func (d *Delivery) end(o Outcome, after time.Duration, reason string) error {
	d.c.obs.Handled(d.Subject, len(d.Data), o)
	if err := d.c.answer(d.reply, o, after, reason); err != nil {
		return fmt.Errorf("answering the delivery of %s: %w", d.Subject, err)
	}
	return nil
}
