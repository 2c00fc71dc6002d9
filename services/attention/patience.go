package attention

import (
	"sync/atomic"
	"time"
)

// wait is the state of one Wait: when rows count as late, and what was done.
type wait struct {
	began, sent, due time.Time
	timer            *time.Timer // at due
	hurried          bool        // due was brought forward
	attempt          uint32      // of the newest group: each re-issue makes one
	late             uint32      // re-issues because patience ran out
}

func newWait(patience time.Duration) *wait {
	now := time.Now()
	return &wait{began: now, sent: now, due: now.Add(patience), timer: time.NewTimer(patience)}
}

func (w *wait) next(pause time.Duration) {
	w.hurried, w.sent = false, time.Now()
	w.due = w.sent.Add(pause)
	w.timer.Reset(pause)
}

// hurry brings the next re-issue forward, but not before a layer can be late.
func (w *wait) hurry(late time.Duration) {
	if due := w.sent.Add(late); due.Before(w.due) {
		w.hurried, w.due = true, due
		w.timer.Reset(time.Until(due))
	}
}

// extend lets rows wait on that a cold function keeps, but not for ever: they may
// have been lost elsewhere.
func (w *wait) extend(pause time.Duration) bool {
	now := time.Now()
	if latest := w.sent.Add(maxPatience); now.Before(latest) {
		w.hurried = false
		w.due = now.Add(min(pause, latest.Sub(now)))
		w.timer.Reset(w.due.Sub(now))
		return true
	}
	return false
}

// maxHurried bounds the re-issues that do not count: replicas that seem to come
// and go without end must not keep a layer waiting for as long.
const maxHurried = 100

// blames says whether the next re-issue counts against the layer.
func (w *wait) blames() bool { return !w.hurried || w.attempt >= maxHurried }

// maxAttempts bounds how often a part is issued again: at least half a minute.
const maxAttempts = 11

// pauses is how often the patience is doubled after an attempt. The first ones
// come in an even pace: they bridge the time until a dead neighbour is missed
// and replaced, and the answer is to come soon after that.
func pauses(attempt uint32) uint32 {
	const even = 5
	if attempt <= even {
		return 0
	}
	return min(attempt-even, 3)
}

// latency follows how long layers take, to know when one is late.
type latency struct {
	slow atomic.Int64 // nanoseconds; rises at once, falls slowly
}

// Bounds of the patience before a first re-issue, and of the time before which
// no hurry makes one.
const (
	minPatience = 800 * time.Millisecond
	maxPatience = 10 * time.Second
	minLate     = 100 * time.Millisecond
)

func (l *latency) observe(took time.Duration, attempts uint32) {
	if attempts > 0 {
		return // says how long somebody was gone, not how long a layer takes
	}
	old := l.slow.Load()
	l.slow.Store(max(int64(took), old-old/64))
}

func (l *latency) patience() time.Duration {
	return min(max(minPatience, 8*time.Duration(l.slow.Load())), maxPatience)
}

// late is when a layer takes longer than any does that nobody delays.
func (l *latency) late() time.Duration {
	return min(max(minLate, 2*time.Duration(l.slow.Load())), l.patience())
}
