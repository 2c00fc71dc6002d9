// Package leaving says when a NATS server is of no use to its client, and goes to
// another one. A server of a cluster that is cut off from the others, or has no disk
// any more, keeps its clients and does nothing for them.
package leaving

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// After is how long nothing may come of what is asked of a server before it is left:
// longer than the election of a leader, which looks alike and passes.
const After = 10 * time.Second

// Streak is a series of failures without a success between them, or a long time in
// which nobody tried. The zero value is none; its methods may be called at once from
// several goroutines.
type Streak struct{ first, last atomic.Pointer[time.Time] } // failures; first nil: none

// Fail takes in a failure.
func (s *Streak) Fail(now time.Time) {
	if before := s.last.Swap(&now); before != nil && now.Sub(*before) > After {
		s.first.Store(nil)
	}
	s.first.CompareAndSwap(nil, &now)
}

// End takes in a success.
func (s *Streak) End() { s.first.Store(nil) }

// Length is the time from the first failure to the last.
func (s *Streak) Length() time.Duration {
	first := s.first.Load()
	if first == nil {
		return 0
	}
	return s.last.Load().Sub(*first)
}

// Possible reports whether a client is connected and knows of another server.
func Possible(nc *nats.Conn) bool { return nc.IsConnected() && len(nc.Servers()) > 1 }
