package engine

import (
	"fmt"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// lifetime is when a sequence came, began, and has to be over, by this host's clock as the
// log's timestamps correct it.
type lifetime struct {
	accepted time.Time
	queued   time.Duration
	first    time.Time // its first token
	deadline time.Time // zero: none
	limited  bool      // the deadline is the log's age
}

// endBefore gives a sequence a deadline of its own where its producer set none,
// or a later one.
func (l *lifetime) endBefore(longest time.Duration) {
	if latest := l.accepted.Add(longest); l.deadline.IsZero() || latest.Before(l.deadline) {
		l.deadline, l.limited = latest, true
	}
}

// late is the end of a sequence whose deadline has passed.
func (l *lifetime) late(tokens int) *pb.Terminal {
	if l.limited {
		return ErrorEnd("deadline_exceeded", fmt.Sprintf("the request took longer than its log is sure to last; it ended after %d tokens (raise --log-age)", tokens))
	}
	return ErrorEnd("deadline_exceeded", fmt.Sprintf("the deadline passed after %d tokens", tokens))
}

// leaveQueue notes for how long it waited.
func (l *lifetime) leaveQueue(now time.Time, epoch uint64) {
	if epoch == 1 { // as for later ones, whose first owner's wait is not known
		l.queued = now.Sub(l.accepted)
	}
}

// timings are in seconds since acceptance.
func (l *lifetime) timings(now time.Time) *pb.Timings {
	t := &pb.Timings{Queue: l.queued.Seconds(), Total: now.Sub(l.accepted).Seconds()}
	if !l.first.IsZero() {
		t.Ttft = l.first.Sub(l.accepted).Seconds()
	}
	return t
}
