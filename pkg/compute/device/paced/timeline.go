package paced

import (
	"sync"
	"time"
)

// timeline is when something is free that does one thing after the other.
type timeline struct {
	mu   sync.Mutex
	free time.Time
}

// take adds something that came at a time and takes so long, and says when it is done.
func (t *timeline) take(came time.Time, long time.Duration) (done time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free.Before(came) {
		t.free = came
	}
	t.free = t.free.Add(long)
	return t.free
}
