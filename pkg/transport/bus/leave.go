package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A server of a cluster that is cut off from the others, or has no disk any
// more, keeps its clients and does nothing for them. A client that knows of
// other servers leaves it for one of those.

// leaveAfter is how long JetStream may do nothing before a client looks for
// another server: longer than the election of a leader, which looks alike and
// passes.
const leaveAfter = 10 * time.Second

// streak is a series of failures without a success between them, or a long time in
// which nobody tried.
type streak struct{ first, last atomic.Int64 } // Unix nanoseconds; first 0: none

func (s *streak) note(err error, now time.Time) {
	switch {
	case err == nil:
		s.first.Store(0)
	case fruitless(err):
		if before := s.last.Swap(now.UnixNano()); now.UnixNano()-before > int64(leaveAfter) {
			s.first.Store(0)
		}
		s.first.CompareAndSwap(0, now.UnixNano())
	}
}

func (s *streak) length() time.Duration {
	first := s.first.Load()
	if first == 0 {
		return 0
	}
	return time.Duration(s.last.Load() - first)
}

// trials are what JetStream does for a connection. They are apart, because a
// server that is cut off goes on telling what it knew.
type trials struct{ storing, asking streak }

func (t *trials) failFor() time.Duration { return max(t.storing.length(), t.asking.length()) }

func (t *trials) reset() {
	t.storing.note(nil, time.Time{})
	t.asking.note(nil, time.Time{})
}

// fruitless says whether an error tells of a server that can do nothing now.
func fruitless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 && !IsFull(err)
	}
	return !errors.Is(err, nats.ErrPermissionViolation) &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAckLost) || errors.Is(err, jetstream.ErrNoStreamResponse))
}

// leaveUseless goes to another server when this one has been of no use for too long.
func (c *Conn) leaveUseless() {
	if c.trials.failFor() < leaveAfter || !c.nc.IsConnected() || len(c.nc.Servers()) < 2 {
		return
	}
	c.trials.reset()
	c.log.Warn("JetStream does nothing here; trying another server", "url", c.nc.ConnectedUrlRedacted(), "for", leaveAfter)
	if err := c.nc.ForceReconnect(); err != nil {
		c.log.Warn("cannot leave the server", "error", err)
	}
}
