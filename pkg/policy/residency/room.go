package residency

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

func (m *Machine) claim(e *entry) {
	e.phase = making
	m.making = append(m.making, e)
}

// makeRoom gives room to the wants that wait for it, in their order, and evicts for
// them. Room that is on its way to one is not given to another.
func (m *Machine) makeRoom() {
	free, coming, still := m.free(), m.leaving, 0
	for _, e := range m.making {
		if e.Bytes-free > coming {
			room, ok := m.evictFor(e, e.Bytes-free-coming)
			if !ok {
				m.actions = append(m.actions, Action{Kind: Refuse, Unit: e.Unit, Bytes: e.Bytes, Room: free + coming + room})
				m.forget(e)
				continue
			}
			coming += room
		}
		if e.Bytes <= free {
			free -= e.Bytes
			m.take(e)
			continue
		}
		coming -= e.Bytes - free
		free = 0
		m.making[still] = e
		still++
	}
	clear(m.making[still:])
	if m.making = m.making[:still]; still == 0 {
		m.bringBack()
	}
}

func (m *Machine) free() int64 {
	if m.settings.Budget == 0 {
		return math.MaxInt64
	}
	return m.settings.Budget - m.used
}

// take reserves a want's bytes: its load may begin.
func (m *Machine) take(e *entry) {
	m.used += e.Bytes
	e.reserved = true
	m.tell(e, Loading)
	m.enqueue(e)
}

// evictFor evicts as many bytes for a want, in the policy's order; if that cannot be
// done none, and it says how many there were.
func (m *Machine) evictFor(e *entry, short int64) (got int64, ok bool) {
	if spare := m.spare(e); spare < short { // before any is taken from the heap in vain
		return spare, false
	}
	var victims, spared []*entry
	for got < short && m.idle.len() > 0 {
		v := m.idle.pop()
		if m.yields(v, e) {
			victims = append(victims, v)
			got += v.Bytes
		} else {
			spared = append(spared, v)
		}
	}
	if got < short {
		spared, victims = append(spared, victims...), nil
	}
	for _, v := range spared {
		m.idle.push(v)
	}
	for _, v := range victims {
		m.evict(v)
	}
	return got, len(victims) > 0
}

// Fits reports whether a want of a unit would be taken now, at once or after evictions.
func (m *Machine) Fits(w Want) bool {
	if m.Phase(w.Unit) != Cold {
		return true
	}
	short := w.Bytes - m.free()
	return short <= 0 || m.spare(&entry{Item: Item{Unit: w.Unit, Bytes: w.Bytes, Urgency: w.Urgency, Priority: w.Priority}}) >= short
}

// spare is the bytes that could be evicted for a want.
func (m *Machine) spare(e *entry) (bytes int64) {
	for _, v := range m.idle.list {
		if m.yields(v, e) {
			bytes += v.Bytes
		}
	}
	return bytes
}

func (m *Machine) yields(idle, to *entry) bool {
	return (m.settings.Busy == nil || !m.settings.Busy(idle.Unit)) && m.settings.Order.Yields(&idle.Item, &to.Item)
}

// evict is for an entry that is in no heap any more.
func (m *Machine) evict(e *entry) {
	e.phase = evicting
	m.leaving += e.Bytes
	m.act(Evict, e)
}

// Evict gives a unit up, if it is held and nobody refers to it.
func (m *Machine) Evict(u unit.Unit) bool {
	e := m.entries[u]
	if e == nil || !e.idle() {
		return false
	}
	m.idle.remove(e)
	m.evict(e)
	return true
}

// Evicted says that a unit's memory is free.
func (m *Machine) Evicted(u unit.Unit) {
	e := m.entries[u]
	if e == nil || e.phase != evicting {
		return
	}
	m.leaving -= e.Bytes
	m.used -= e.Bytes
	e.reserved, e.phase = false, cold
	m.tell(e, Cold)
	if e.refs > 0 { // it is wanted again
		m.place(e)
	} else {
		m.forget(e)
	}
	m.settle()
}

// InUse says that a unit could not be evicted.
func (m *Machine) InUse(u unit.Unit) {
	e := m.entries[u]
	if e == nil || e.phase != evicting {
		return
	}
	m.leaving -= e.Bytes
	e.phase = held
	switch {
	case e.refs > 0:
		m.act(Ready, e)
	case len(m.making) > 0:
		e.aside = true
		m.aside = append(m.aside, e)
	default:
		m.idle.push(e)
	}
	m.settle()
}

func (e *entry) idle() bool { return e.phase == held && e.refs == 0 && !e.aside }

// rest is for a held unit that has lost its last reference.
func (m *Machine) rest(e *entry) {
	m.clock++
	e.Used = m.clock
	if e.idle() {
		m.idle.push(e)
	}
}

// occupy is for a held unit that gets a reference.
func (m *Machine) occupy(e *entry) {
	if e.aside {
		e.aside = false
		m.aside = slices.DeleteFunc(m.aside, func(one *entry) bool { return one == e })
	} else if e.at < len(m.idle.list) && m.idle.list[e.at] == e {
		m.idle.remove(e)
	}
}

// bringBack is for idle units that were in use: they may be evicted again.
func (m *Machine) bringBack() {
	for _, e := range m.aside {
		e.aside = false
		m.idle.push(e)
	}
	m.aside = m.aside[:0]
}

// heap has its first entry, by an order that may change under it, at 0. An entry is in
// one heap at most, and knows where.
type heap struct {
	before func(a, b *entry) bool
	list   []*entry
	stale  bool // the order has changed
}

func (h *heap) len() int { return len(h.list) }

func (h *heap) push(e *entry) {
	e.at = len(h.list)
	h.list = append(h.list, e)
	h.up(e.at)
}

// first is nil if there is none.
func (h *heap) first() *entry {
	if len(h.list) == 0 {
		return nil
	}
	h.freshen()
	return h.list[0]
}

func (h *heap) pop() *entry {
	e := h.first()
	h.remove(e)
	return e
}

func (h *heap) remove(e *entry) {
	at, last := e.at, len(h.list)-1
	h.swap(at, last)
	h.list[last] = nil
	h.list = h.list[:last]
	if at < last {
		h.fix(h.list[at])
	}
}

func (h *heap) fix(e *entry) {
	if !h.up(e.at) {
		h.down(e.at)
	}
}

// freshen makes the order hold again after it has changed.
func (h *heap) freshen() {
	if !h.stale {
		return
	}
	h.stale = false
	for i := len(h.list)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].at, h.list[j].at = i, j
}

func (h *heap) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.list[i], h.list[parent]) {
			break
		}
		h.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (h *heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.list); child++ {
			if h.before(h.list[child], h.list[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
