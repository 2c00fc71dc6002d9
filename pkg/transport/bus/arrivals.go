package bus

import (
	"time"

	"github.com/nats-io/nats.go"
)

// arrivals tells when the messages of a subscription came into the process,
// which the client library does not. The library hands them over one at a time,
// so one that found nobody at work came just now. One that joined the queue
// while another was handled counts from the end of that handling, when it is first
// seen: it has waited at least so long, and longer by less than one handling. The
// subscription's goroutine uses it.
type arrivals struct {
	queued []joined // the oldest first
	known  int      // messages in queued
}

// joined is so many messages that were first seen at one time.
type joined struct {
	at time.Time
	n  int
}

// next is when the message came that is handled from now on.
func (a *arrivals) next(now time.Time) time.Time {
	if len(a.queued) == 0 {
		return now
	}
	first := &a.queued[0]
	at := first.at
	first.n--
	a.known--
	if first.n == 0 {
		a.queued = a.queued[1:]
	}
	return at
}

// handled notes how many messages wait when a handling has ended.
func (a *arrivals) handled(now time.Time, waiting int) {
	if n := waiting - a.known; n > 0 {
		a.queued = append(a.queued, joined{now, n})
		a.known = waiting
	}
}

// behind is how many messages wait behind the one that is handled.
func behind(m *nats.Msg) int {
	n, _, err := m.Sub.Pending()
	if err != nil {
		return 0 // closed: nothing more comes
	}
	return n - 1
}
