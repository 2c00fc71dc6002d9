package bus

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
)

// Pauses between attempts of Work at something that fails for an unknown reason.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Work does a delivery's work and settles it; what do's error leads to is in
// classify.go. Unlike with End, what is to be tried again is tried again here,
// without a bound, while the delivery is renewed. It goes to another replica
// only when ctx ends, when this one is gone, or when do's error is Elsewhere's. So the count of its deliveries
// says how many replicas had it, and nothing about how often it failed. The
// returned error is about settling it: the delivery may come again then.
func (d *Delivery) Work(ctx context.Context, do func() error) error {
	defer d.renew()()
	for pauses := pause.Between(firstPause, lastPause); ; {
		err := d.c.Try(d.Subject, do)
		outcome, after := classify(err, 1)
		if outcome != Retried || IsElsewhere(err) {
			return d.end(outcome, after, err) //nolint:contextcheck // what is given up is kept also by who stops
		}
		if pause.For(ctx, max(pauses.Next(), after)) != nil {
			return d.Nak(0) //nolint:contextcheck // ctx has ended
		}
	}
}

// renew keeps the delivery from coming again until stop is called, by three
// signs of life each AckWait.
func (d *Delivery) renew() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d.ackWait / 3)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				_ = d.InProgress() // disconnected: it comes again, and is done twice
			}
		}
	}()
	return func() { close(quit); <-done }
}
