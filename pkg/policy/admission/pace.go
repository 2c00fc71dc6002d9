package admission

import "math"

// halfLife is after how many seconds, of those in which somebody waited, what
// was seen counts half.
const halfLife = 10

// enough is for how many seconds somebody must have waited before a pace is known.
const enough = 0.5

// Pace is how much gets done a second while somebody waits. What gets done
// while nobody does says how much was asked for, and not how much could be done.
type Pace struct {
	work, requests, seconds float64
	at                      float64
	busy                    bool
}

// Advance says what the time is, and whether somebody waits from now on.
func (p *Pace) Advance(now float64, busy bool) {
	if passed := now - p.at; p.busy && passed > 0 {
		keep := math.Exp2(-passed / halfLife)
		p.work, p.requests, p.seconds = keep*p.work, keep*p.requests, keep*p.seconds+passed
	}
	p.at, p.busy = max(p.at, now), busy
}

// Done counts a request that got done.
func (p *Pace) Done(work float64) {
	if p.busy {
		p.work += work
		p.requests++
	}
}

// Each is how many seconds a request takes of the machine's time; 0: nobody knows.
func (p *Pace) Each() float64 {
	if p.seconds < enough || p.requests == 0 {
		return 0
	}
	return p.seconds / p.requests
}

// Takes is how many seconds so much work takes; 0: nobody knows.
func (p *Pace) Takes(work float64) float64 {
	if p.seconds < enough || p.work == 0 {
		return 0
	}
	return work * p.seconds / p.work
}
