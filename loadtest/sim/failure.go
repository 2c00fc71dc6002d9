package sim

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Failure is a host that goes away, with all that it holds.
type Failure struct {
	Host int
	At   float64 // seconds
	// Back is when it is there again, with nothing in its memory; 0 is never.
	Back float64
}

func (s Settings) checkFailures() error {
	for i, f := range s.Failures {
		switch {
		case f.Host < 0 || f.Host >= s.Hosts:
			return fmt.Errorf("failure %d is of host %d; hosts are 0 to %d", i, f.Host, s.Hosts-1)
		case !(f.At >= 0) || f.Back != 0 && !(f.Back > f.At):
			return fmt.Errorf("failure %d of host %d is from %v to %v s; it must begin at 0 or later, and end later than that, or be 0 for never", i, f.Host, f.At, f.Back)
		}
	}
	if !(s.Notice >= 0) {
		return fmt.Errorf("rows wait %v s for a host that is gone; it must be 0 or above", s.Notice)
	}
	return nil
}

// fail brings hosts down and up as their time has come, between layers: rows that are on
// their way to a host that goes wait for Notice, and go to others with the layer after.
func (e *engine) fail() error {
	if len(e.Failures) == 0 {
		return nil
	}
	changed := false
	for i, f := range e.Failures {
		down := f.At <= e.now && (f.Back == 0 || e.now < f.Back)
		if down == e.failed[i] {
			continue
		}
		e.failed[i], changed = down, true
		if down {
			e.lose(f.Host)
			e.now += e.Notice
		} else {
			e.links[f.Host] = e.now
		}
	}
	if !changed {
		return nil
	}
	return e.tell(e.roll())
}

// tell tells policies which hosts are there, and of the memory that is left.
func (e *engine) tell(gone []int) error {
	for h := range e.Hosts {
		fares := world.Well
		if !e.up(h) {
			fares = world.Gone
		}
		if err := e.world.Observe(world.Fares{Host: h, Health: fares}); err != nil {
			return fmt.Errorf("after hosts have failed: %w", err)
		}
	}
	for l := range e.layers {
		if err := e.world.Observe(e.room(l, gone)); err != nil {
			return fmt.Errorf("after hosts have failed: %w", err)
		}
	}
	return nil
}

// roll notes which hosts are there, and says which are not.
func (e *engine) roll() (gone []int) {
	e.there = e.there[:0]
	for h := range e.Hosts {
		if e.up(h) {
			e.there = append(e.there, h)
		} else {
			gone = append(gone, h)
		}
	}
	return gone
}

// up reports whether a host is there.
func (e *engine) up(host int) bool {
	for i, down := range e.failed {
		if down && e.Failures[i].Host == host {
			return false
		}
	}
	return true
}

// lose takes all replicas of a host away.
func (e *engine) lose(host int) {
	for l := range e.layers {
		y := &e.layers[l]
		for at := len(y.replicas) - 1; at >= 0; at-- {
			if y.replicas[at].host == host {
				e.evict(y, at, e.now)
			}
		}
	}
}
