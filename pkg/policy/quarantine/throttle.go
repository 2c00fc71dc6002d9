package quarantine

import "math"

// Throttle is for how much of the recent time a device has been slowed, by heat or for
// want of power. A host whose device is slowed for most of it asks to be avoided, so
// that the device cools while others compute, until it is hardly slowed any more.
type Throttle struct {
	// Share of the time, older time counting less.
	Share float64
	// Avoid says whether others should compute what the host would.
	Avoid bool
}

const (
	// throttleHalfLife makes ten seconds of being slowed enough, and no moment.
	throttleHalfLife = 5.0
	throttledFrom    = 0.75
	throttledUntil   = 0.1
	// longestLook bounds what one look stands for: a process may have stood still.
	longestLook = 2.0
)

// After is what follows when a device was found slowed or not, so many seconds after
// the last look.
func (t Throttle) After(seconds float64, slowed bool) Throttle {
	keep := math.Exp2(-min(max(0, seconds), longestLook) / throttleHalfLife)
	t.Share *= keep
	if slowed {
		t.Share += 1 - keep
	}
	switch {
	case t.Share >= throttledFrom:
		t.Avoid = true
	case t.Share <= throttledUntil:
		t.Avoid = false
	}
	return t
}
