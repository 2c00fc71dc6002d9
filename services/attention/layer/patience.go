package layer

import "time"

// wait is the state of one Wait: when rows count as late, and what was done.
type wait struct {
	began, sent, due time.Time
	limits
	timer   *time.Timer // at due
	hurried bool        // due was brought forward
	excused bool        // the timer was late once since sent
	// declined says that a host has left the newest attempt to others, declines how
	// often that was so.
	declined bool
	declines int
	attempt  uint32 // of the newest group: each re-issue makes one
	late     uint32 // re-issues because patience ran out, since somebody could take rows
	// standing says that nobody could when it was looked last, lacked what was missing then.
	standing bool
	lacked   string
}

func newWait(l limits) *wait {
	now := time.Now()
	return &wait{began: now, sent: now, due: now.Add(l.early), limits: l, timer: time.NewTimer(l.early)}
}

// next begins the wait for another attempt, which was sent just now.
func (w *wait) next(l limits) {
	w.limits, w.hurried, w.excused, w.declined, w.sent = l, false, false, false, time.Now()
	w.until(w.sent.Add(l.pause(w.late)))
}

func (w *wait) until(due time.Time) {
	w.due = due
	w.timer.Reset(time.Until(due))
}

// hurry brings the next re-issue forward, but not before a layer takes longer than usual.
func (w *wait) hurry() {
	due, now := w.sent.Add(w.limits.hurried), time.Now()
	if due.Before(now) {
		due = now
	}
	if due.Before(w.due) {
		w.hurried = true
		w.until(due)
	}
}

// maxDeclines is how often rows are sent again at once because a host leaves them to
// others: if more hosts do, somebody has to get room first.
const maxDeclines = 4

// starved is how much later than due a timer goes off only where the machine does
// not get on.
const starved = 50 * time.Millisecond

// excuse lets rows wait a little more, once an attempt, if this process did not run
// when they were due: their block may be here, and not read yet.
func (w *wait) excuse() bool {
	now := time.Now()
	if w.excused || now.Sub(w.due) < starved {
		return false
	}
	w.excused = true
	w.until(now.Add(w.early))
	return true
}

// extend lets rows wait on that a cold function keeps, but not for ever: they may
// have been lost elsewhere.
func (w *wait) extend() bool {
	now := time.Now()
	if latest := w.sent.Add(maxPatience); now.Before(latest) {
		w.hurried = false
		w.until(now.Add(min(w.early, latest.Sub(now))))
		return true
	}
	return false
}

// standFor is how long rows that nobody could take wait until it is looked again.
const standFor = 100 * time.Millisecond

// stand lets rows wait that nobody could take.
func (w *wait) stand(why string) {
	w.standing = true
	w.missed(why)
	w.until(time.Now().Add(standFor))
}

// resume ends that: what was sent before blames nobody.
func (w *wait) resume() { w.standing, w.hurried, w.late = false, true, 0 }

// missed notes what was missing; empty: nothing.
func (w *wait) missed(why string) {
	if why != "" {
		w.lacked = why
	}
}

// missing tells what was missing last.
func (w *wait) missing() string {
	if w.lacked == "" {
		return ""
	}
	return "; missing meanwhile: " + w.lacked
}

// postpone lets rows wait on that there is no budget for; false: they have waited
// long enough, or are known to be lost.
func (w *wait) postpone(paid func() bool) bool {
	calm := w.sent.Add(w.calm)
	if w.hurried || !time.Now().Before(calm) || paid() {
		return false
	}
	w.until(calm)
	return true
}

// maxHurried bounds the re-issues that do not count: replicas that seem to come
// and go without end must not keep a layer waiting for as long.
const maxHurried = 100

// blames reports whether the next re-issue counts against the layer.
func (w *wait) blames() bool { return !w.hurried || w.attempt >= maxHurried }

// maxAttempts bounds how often a part is issued again: at least half a minute.
const maxAttempts = 16
