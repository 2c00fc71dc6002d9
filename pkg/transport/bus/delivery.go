package bus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

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
	return c.post(reply, "", body)
}

func nakBody(after time.Duration) []byte {
	if after <= 0 {
		return bodyNak
	}
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, after.Nanoseconds())
}

// Delivery is work from a Queue. Exactly one of Ack, Nak and End ends it;
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

	c       *Conn
	reply   string
	queue   *QueueSettings
	letters *letters // the queue's
	ackWait time.Duration
}

func (q *Queue) delivery(m *nats.Msg, o origin) *Delivery {
	if o.delivered > 1 {
		q.c.obs.Redelivered(m.Subject, o.delivered)
	}
	return &Delivery{
		Data: m.Data, Headers: m.Header, Subject: m.Subject,
		Sequence: o.sequence, Delivered: o.delivered, Timestamp: o.stored,
		c: q.c, reply: m.Reply, queue: &q.s, letters: &q.letters, ackWait: q.config.AckWait,
	}
}

// Context returns ctx with the trace context that the message carries.
func (d *Delivery) Context(ctx context.Context) context.Context {
	if d.c.prop == nil || len(d.Headers) == 0 {
		return ctx
	}
	return d.c.prop.Extract(ctx, d.Headers)
}

// AckSubject is the subject on which the delivery is settled, for GiveBack.
func (d *Delivery) AckSubject() string { return d.reply }

// Ack says that the work is done. Like the others it is not confirmed: when it
// gets lost, the work comes again.
func (d *Delivery) Ack() error { return d.end(Done, 0, nil) }

// Nak gives the work back, to be delivered again after a while.
func (d *Delivery) Nak(after time.Duration) error { return d.end(Retried, after, nil) }

// End does what classify.go says about a handler's error, nil included.
func (d *Delivery) End(err error) error {
	outcome, after := classify(err, d.Delivered)
	return d.end(outcome, after, err)
}

// InProgress says that the work goes on: AckWait starts again.
func (d *Delivery) InProgress() error {
	if err := d.c.post(d.reply, "", bodyProgress); err != nil {
		return fmt.Errorf("reporting progress on %s: %w", d.Subject, err)
	}
	return nil
}

func (d *Delivery) end(o Outcome, after time.Duration, cause error) error {
	if o == Poisoned {
		d.bury(reasonOf(cause), cause)
	}
	d.c.obs.Handled(d.Subject, len(d.Data), o)
	if err := d.c.answer(d.reply, o, after, reason(cause)); err != nil {
		return fmt.Errorf("answering the delivery of %s: %w", d.Subject, err)
	}
	return nil
}
