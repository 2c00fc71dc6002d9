package members

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Listening is a replica that others may look for.
type Listening struct {
	heard atomic.Bool
	sub   *nats.Subscription
}

// conn is bus.Conn's part that this package needs.
type conn interface {
	Subscribe(subject, group string, handle nats.MsgHandler) (*nats.Subscription, error)
	SendBytes(ctx context.Context, subject string, data []byte, header nats.Header) error
	Absent(ctx context.Context, subject string, within time.Duration) (bool, error)
	Gap() func() bool
}

// ListenHere listens to a replica's subject until Stop. What comes there is of no
// interest.
func ListenHere(ctx context.Context, c conn, subject string) (*Listening, error) {
	l := &Listening{}
	sub, err := c.Subscribe(subject, "", func(*nats.Msg) { l.heard.Store(true) })
	if err != nil {
		return nil, fmt.Errorf("listening to this replica's own subject: %w", err)
	}
	l.sub = sub
	_ = c.SendBytes(ctx, subject, nil, nil) // lost without a connection: then others do not look for this replica
	return l, nil
}

// Heard says that what is sent to the replica's subject arrives. It does not where
// the replica's user may not listen there.
func (l *Listening) Heard() bool { return l.heard.Load() }

// Stop ends listening.
func (l *Listening) Stop() { _ = l.sub.Unsubscribe() } // fails when the connection is closed
