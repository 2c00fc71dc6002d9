package bus

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
)

// outstandingAcks bounds how many published tensors a Hop has unacknowledged.
const outstandingAcks = 1024

// Hop sends and receives tensors. The mode decides what a message costs and
// what becomes of it when its receiver dies; senders and receivers do not see
// which one it is:
//
//	acked    stored in memory; the publish and the handling are acknowledged,
//	         so a dead receiver's messages go to a sibling
//	unacked  stored in memory until delivered; to a Sole receiver as core
//	core     not stored: nobody there, nothing kept
type Hop struct {
	conn *Conn
	mode schemas.Hops
	out  chan struct{} // a token for each unacknowledged message; nil unless acked
}

// NewHop returns a hop. It owns nothing that needs closing.
func NewHop(c *Conn, mode schemas.Hops) *Hop {
	h := &Hop{conn: c, mode: mode}
	if mode == schemas.HopsAcked {
		h.out = make(chan struct{}, outstandingAcks)
	}
	return h
}

// Send publishes a tensor. It does not wait for the message to be stored; with
// acked hops it waits for room among the unacknowledged ones, and failures are
// counted by the Observer. Who owns the step issues lost tensors again.
func (h *Hop) Send(ctx context.Context, subject string, msg proto.Message) error {
	if h.out == nil {
		return h.conn.Send(ctx, subject, msg, nil)
	}
	select {
	case h.out <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("waiting for room to publish to %s: %w", subject, ctx.Err())
	}
	err := h.sendAcked(ctx, subject, msg)
	if err != nil {
		<-h.out
	}
	return err
}

func (h *Hop) sendAcked(ctx context.Context, subject string, msg proto.Message) error {
	buf := getBuffer()
	defer putBuffer(buf)
	data, err := proto.MarshalOptions{}.MarshalAppend((*buf)[:0], msg)
	if err != nil {
		return fmt.Errorf("encoding a message for %s: %w", subject, err)
	}
	*buf = data
	return h.conn.StoreAsync(ctx, subject, data, nil, func(_ uint64, err error) {
		<-h.out
		if err != nil {
			h.conn.obs.PublishFailed(subject, err)
		}
	})
}

// Ensure creates the consumer of r, which nobody need receive from: it keeps what
// is published from now on. Without a stream nothing can.
func (h *Hop) Ensure(ctx context.Context, r Receiver) error {
	if err := r.check(); err != nil || !h.stores(r) {
		return err
	}
	r = r.withDefaults()
	return h.conn.Persist(ctx, refTo(r.Stream.Name, r.Name).creating(), func(ctx context.Context) error {
		return h.conn.createConsumer(ctx, r.Stream, r.consumer(h.mode == schemas.HopsAcked))
	})
}

// stores reports whether what r receives comes out of a stream.
func (h *Hop) stores(r Receiver) bool {
	return h.mode == schemas.HopsAcked || h.mode == schemas.HopsUnacked && !r.Sole
}

// Receive starts calling handler for the messages of r. When it returns, the
// consumer or subscription exists, so that nothing published from now on is missed. ctx bounds
// the setup; handlers get its values and a context that ends with Stop. A
// handler owns its message's data. What its error leads to is in classify.go.
func (h *Hop) Receive(ctx context.Context, r Receiver, handler Handler) (*Receiving, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if !h.stores(r) {
		return h.conn.subscribe(ctx, r.withDefaults(), handler)
	}
	return h.conn.consume(ctx, r.withDefaults(), h.mode == schemas.HopsAcked, handler)
}

func (r Receiver) check() error {
	if r.Subject == "" || len(r.Subject) > maxSubject {
		return fmt.Errorf("receiver %.80q of subject %.80q: it must have 1 to %d bytes", r.Name, r.Subject, maxSubject)
	}
	return checkName(r.Name)
}
