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
type Streak struct{ first, last atomic.Int64 } // Unix nanoseconds; first 0: none

// Fail takes in a failure.
func (s *Streak) Fail(now time.Time) {
	if before := s.last.Swap(now.UnixNano()); now.UnixNano()-before > int64(After) {
		s.first.Store(0)
	}
	s.first.CompareAndSwap(0, now.UnixNano())
}

// End takes in a success.
func (s *Streak) End() { s.first.Store(0) }

// Length is the time from the first failure to the last.
func (s *Streak) Length() time.Duration {
	first := s.first.Load()
	if first == 0 {
		return 0
	}
	return time.Duration(s.last.Load() - first)
}

// Possible says whether a client is connected and knows of another server.
func Possible(nc *nats.Conn) bool { return nc.IsConnected() && len(nc.Servers()) > 1 }
