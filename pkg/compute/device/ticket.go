package device

import (
	"context"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Ticket is a counted reference to an expert: first to its load, then to the
// warm expert. Who has one must Release it.
type Ticket struct {
	ID forward.ExpertID
	// Bytes are the expert's on the device.
	Bytes int64

	done    chan struct{}
	err     error // of the end; set before done is closed
	release func()

	// Guarded by the store's mu.
	place   place
	unwatch func() bool // stops watching the context of the load; nil: nothing does
}

type place uint8

const (
	waiting place = iota // a load
	holding              // a warm expert
	over                 // nothing any more
)

func (t *Ticket) end(err error) {
	t.err, t.place = err, holding
	if err != nil {
		t.place = over
	}
	if t.unwatch != nil {
		t.unwatch()
	}
	close(t.done)
}

// Done is closed when the load has ended, however it did.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Err is how the load ended: nil if the expert is warm, or the load goes on.
func (t *Ticket) Err() error {
	select {
	case <-t.done:
		return t.err
	default:
		return nil
	}
}

// Wait returns Err when the load has ended, or ctx's error before; the load
// goes on then.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release gives the reference back: a load that has no other ticket is
// cancelled, a warm expert without one may be evicted. Calling it again does
// nothing.
func (t *Ticket) Release() { t.release() }
