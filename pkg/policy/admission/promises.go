package admission

import (
	"cmp"
	"math"
	"slices"
)

const (
	// Horizon is how far ahead promises are given, in seconds: who would wait longer
	// is told so long, and promised nothing.
	Horizon = 60
	// Grace is for how many seconds after its time a promise is kept; early is by how
	// many before it somebody may come.
	Grace = 1
	early = 0.05
	// soonest is the shortest time that is worth coming again for.
	soonest = 0.1
	// maxPromises bounds those that are kept in mind.
	maxPromises = 8192
)

// Promises are the times at which requests that were turned away are to come
// again. They lie as far apart as places get free, and places are held for them, so
// that who comes at his time finds one.
type Promises struct {
	until float64            // the time of the next one
	given []promise          // in the order of their times
	due   map[string]float64 // of those, by request
}

type promise struct {
	request string
	due     float64
	work    float64
}

// Give promises a request a time, in seconds from now: not before the first place
// is free, and behind all that were promised before, each of which takes a while.
// Who came at his time in vain does not go behind the others again.
func (p *Promises) Give(request string, now, first, each, work float64) (after float64) {
	p.forget(now)
	first = max(first, soonest)
	due, again := max(p.until, now+first), false
	if i := p.find(request); i >= 0 {
		if p.given[i].due > now+early {
			return p.given[i].due - now // it came too early
		}
		p.drop(i)
		due, again = now+first, true
	}
	if due > now+Horizon || len(p.given) >= maxPromises {
		return Horizon
	}
	if !again {
		p.until = due + each
	}
	p.add(promise{request, due, work})
	return due - now
}

func (p *Promises) add(g promise) {
	if p.due == nil {
		p.due = map[string]float64{}
	}
	p.due[g.request] = g.due
	p.given = slices.Insert(p.given, p.from(g.due), g)
}

func (p *Promises) drop(i int) {
	delete(p.due, p.given[i].request)
	p.given = slices.Delete(p.given, i, i+1)
}

func (p *Promises) from(due float64) int {
	i, _ := slices.BinarySearchFunc(p.given, due, func(g promise, due float64) int { return cmp.Compare(g.due, due) })
	return i
}

// Due reports whether a request was promised this time, or an earlier one.
func (p *Promises) Due(request string, now float64) bool {
	due, ok := p.due[request]
	return ok && due <= now+early
}

// Keep takes a promise out that was kept.
func (p *Promises) Keep(request string) {
	if i := p.find(request); i >= 0 {
		p.drop(i)
	}
}

// Held is for how many requests places are held while one asks: for none if it was
// promised one itself.
func (p *Promises) Held(request string, now float64) int {
	p.forget(now)
	if p.Due(request, now) {
		return 0
	}
	return len(p.given)
}

func (p *Promises) before(until float64) (n int, work float64) {
	for ; n < len(p.given) && p.given[n].due <= until; n++ {
		work += p.given[n].work
	}
	return n, work
}

// forget drops the promises that nobody came for.
func (p *Promises) forget(now float64) {
	n := 0
	for ; n < len(p.given) && p.given[n].due+Grace < now; n++ {
		delete(p.due, p.given[n].request)
	}
	p.given = slices.Delete(p.given, 0, n)
}

// find is a request's place; -1: nothing is promised to it.
func (p *Promises) find(request string) int {
	due, ok := p.due[request]
	if !ok {
		return -1
	}
	i := p.from(due)
	for p.given[i].request != request {
		i++ // promised the same time
	}
	return i
}

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
