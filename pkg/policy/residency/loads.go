package residency

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// enqueue makes a load wait for a lane.
func (m *Machine) enqueue(e *entry) {
	e.phase = queued
	if e.begun {
		e.phase = standing
	}
	m.queue.push(e)
}

// begin fills the lanes, with no load that is less urgent than another one that runs or
// waits.
func (m *Machine) begin() {
	for len(m.running)+m.claims() < m.settings.Loads {
		e := m.queue.first()
		if e == nil || m.outrun(e) {
			return
		}
		m.queue.remove(e)
		if !e.reserved { // a hint
			m.claim(e)
			m.makeRoom()
			continue
		}
		kind := Load
		if e.begun {
			kind = Resume
		}
		e.phase, e.begun, e.cancelled = loading, true, false
		m.running = append(m.running, e)
		m.act(kind, e)
	}
}

// claims is how many hints are to take a lane as soon as they have room.
func (m *Machine) claims() (n int) {
	for _, e := range m.making {
		if e.Urgency == Hinted {
			n++
		}
	}
	return n
}

func (m *Machine) outrun(e *entry) bool {
	return slices.ContainsFunc(m.running, func(other *entry) bool { return other.Urgency > e.Urgency && !other.cancelled })
}

// Piece says that a piece of a load has ended, but not the load. If it is to go on at
// once that is true; else it stands still until it is resumed or cancelled.
func (m *Machine) Piece(u unit.Unit) (goesOn bool) {
	e := m.entries[u]
	if e == nil || e.phase != loading || e.cancelled {
		return true
	}
	next := m.queue.first()
	if !m.outrun(e) && (next == nil || next.Urgency <= e.Urgency) {
		return true
	}
	m.endRun(e)
	m.enqueue(e)
	m.settle()
	return false
}

// cancel ends a load that nobody waits for.
func (m *Machine) cancel(e *entry) {
	if !e.cancelled {
		e.cancelled = true
		m.act(Cancel, e)
	}
}

// ended takes a load that has ended from where it is; nil if there is none.
func (m *Machine) ended(u unit.Unit) *entry {
	e := m.entries[u]
	switch {
	case e == nil:
		return nil
	case e.phase == loading:
		m.endRun(e)
		return e
	case e.phase == standing:
		m.queue.remove(e)
		return e
	}
	return nil
}

func (m *Machine) endRun(e *entry) {
	if at := slices.Index(m.running, e); at >= 0 {
		m.running = slices.Delete(m.running, at, at+1)
	}
}

// Loaded says that a load has ended well, though it may be cancelled.
func (m *Machine) Loaded(u unit.Unit) {
	e := m.ended(u)
	if e == nil {
		return
	}
	e.phase, e.begun, e.cancelled = held, false, false
	m.tell(e, Held)
	if e.refs > 0 {
		m.act(Ready, e)
	} else {
		m.rest(e)
	}
	m.settle()
}

// Failed says that a load has ended badly. Those who waited for it have no reference
// any more.
func (m *Machine) Failed(u unit.Unit) {
	e := m.ended(u)
	if e == nil {
		return
	}
	m.forget(e)
	m.settle()
}

// Stopped says that a load has ended because it was cancelled. If the unit is wanted
// again it begins anew.
func (m *Machine) Stopped(u unit.Unit) {
	e := m.ended(u)
	if e == nil {
		return
	}
	if e.begun, e.cancelled = false, false; e.refs > 0 {
		m.clock++
		e.Wanted = m.clock
		m.enqueue(e)
	} else {
		m.forget(e)
	}
	m.settle()
}
