package tokenizer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/deployment"
)

// subscriptions end with the replica.
type subscriptions struct {
	d   *deployment.Deployment
	all []*nats.Subscription
}

func newSubscriptions(d *deployment.Deployment) subscriptions {
	return subscriptions{d: d}
}

// keep has a subscription end with the replica.
func (s *subscriptions) keep(sub *nats.Subscription, err error) error {
	if err == nil {
		s.all = append(s.all, sub)
	}
	return err
}

// end ends the subscriptions, and returns when what has come by them is handled, or after a
// while: a replay that was asked for at the last moment is handed on like the others.
func (s *subscriptions) end(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var handled []chan struct{}
	for _, sub := range s.all {
		done := make(chan struct{})
		sub.SetClosedHandler(func(string) { close(done) })
		if s.d.Edge.Connected() && s.d.Conn.Connected() && sub.Drain() == nil {
			handled = append(handled, done)
		}
	}
	for _, done := range handled {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	for _, sub := range s.all {
		_ = sub.Unsubscribe() // fails when it is already gone
	}
}
