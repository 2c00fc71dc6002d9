package pool

import "time"

const (
	// patient is how long a worker looks for work of the only step where that has paid. A step in one process is cut by
	// messages: some tens of microseconds after attention has used the threads an expert does, or some more.
	patient = 250 * time.Microsecond
	// mostStreak bounds how seldom it tries again where that has not paid: once in 1<<mostStreak times.
	mostStreak = 6
)

// patience decides how long a worker looks before it sleeps: longer than spin only where work has come so late, for
// the processor may be wanted elsewhere. One goroutine uses it.
type patience struct {
	streak int // of long looks that found nothing
	skips  int // looks that are short
}

// limit returns how long the next look may take, while there is one step or not.
func (p *patience) limit(step bool) time.Duration {
	switch {
	case !step:
		return spin
	case p.skips > 0:
		p.skips--
		return spin
	}
	return patient
}

// learn takes in a look of at most limit: how long it took, whether it found work, and whether others had the processor
// meanwhile.
func (p *patience) learn(limit, took time.Duration, found, shared bool) {
	switch {
	case shared:
		p.streak, p.skips = mostStreak, 1<<mostStreak
	case found && took > spin:
		p.streak = 0
	case !found && limit > spin:
		p.streak = min(p.streak+1, mostStreak)
		p.skips = 1<<p.streak - 1
	}
}
