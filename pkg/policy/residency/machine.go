package residency

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Settings of a machine.
type Settings struct {
	// Budget bounds the bytes of units; 0 is no limit.
	Budget int64
	// Loads is how many loads run at a time; 0 is one.
	Loads int
	// Order is the policy's; nil is LRU.
	Order Order
	// Busy, if set, reports whether a held unit is in use by somebody who has no reference,
	// so that it is not worth trying to evict it.
	Busy func(unit.Unit) bool
	// Watch, if set, is told when a unit's bytes are set aside (Loading), when it is held,
	// and when they are free (Cold).
	Watch func(u unit.Unit, bytes int64, is Phase)
}

// Machine is the state of one tier. It is not safe for concurrent use. Events that do
// not fit a unit's phase change nothing. After each event Next has what is to be done.
type Machine struct {
	settings Settings
	entries  map[unit.Unit]*entry // but the cold ones
	used     int64
	clock    uint64 // counts wants and uses

	queue   heap     // loads that wait, begun or not: the next one first
	running []*entry // loads that take a lane
	making  []*entry // wants that wait for room, in their order
	idle    heap     // held units without references: the next to be evicted first
	aside   []*entry // idle ones that were in use when they were to go for one that is in making
	leaving int64    // bytes of what is being evicted
	actions []Action
	done    int // actions that Next has given out
}

// entry is a unit that is not cold.
type entry struct {
	Item
	phase     phase
	refs      int
	reserved  bool // its bytes are taken
	begun     bool // its load is
	cancelled bool // its load is
	aside     bool
	at        int // in its heap
}

// phase is Phase, and more of it.
type phase uint8

const (
	cold     phase = iota
	making         // waits for room
	queued         // for a lane
	loading        // in a lane, or cancelled
	standing       // in the queue, between pieces
	held
	evicting
)

var shown = [...]Phase{cold: Cold, making: Queued, queued: Queued, loading: Loading, standing: Loading, held: Held, evicting: Evicting}

// New is a machine that holds nothing.
func New(s Settings) *Machine {
	s.Loads = max(s.Loads, 1)
	if s.Order == nil {
		s.Order = LRU{}
	}
	m := &Machine{settings: s, entries: map[unit.Unit]*entry{}}
	m.idle.before = func(a, b *entry) bool {
		return cmp.Or(s.Order.EvictFirst(&a.Item, &b.Item), cmp.Compare(a.Used, b.Used), unit.Compare(a.Unit, b.Unit)) < 0
	}
	m.queue.before = func(a, b *entry) bool {
		return cmp.Or(cmp.Compare(b.Urgency, a.Urgency), compareBool(b.begun, a.begun), s.Order.FetchFirst(&a.Item, &b.Item), cmp.Compare(a.Wanted, b.Wanted)) < 0
	}
	return m
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Want adds a reference to a unit, and returns the phase that it was in: a demand that
// finds it held is a hit, and one that finds it loading is late.
func (m *Machine) Want(w Want) (found Phase) {
	e := m.entries[w.Unit]
	if e == nil {
		e = &entry{Item: Item{Unit: w.Unit, Bytes: max(0, w.Bytes)}}
		m.entries[w.Unit] = e
	}
	found = shown[e.phase]
	e.refs++
	m.clock++
	switch e.phase {
	case cold:
		m.rank(e, w)
		m.place(e)
	case making, queued, standing:
		m.raise(e, w)
	case loading: // counts if the load, being cancelled, has to begin again
		if e.outranked(w) {
			e.Urgency, e.Priority = w.Urgency, w.Priority
		}
	case held:
		m.occupy(e)
		e.Urgency = max(e.Urgency, w.Urgency)
		m.act(Ready, e)
	case evicting:
		if e.refs == 1 || e.outranked(w) {
			m.rank(e, w)
		}
	}
	m.settle()
	return found
}

func (m *Machine) rank(e *entry, w Want) {
	e.Urgency, e.Priority, e.Wanted = min(w.Urgency, Demanded), w.Priority, m.clock
}

// outranked says that a want counts in place of the one that did.
func (e *entry) outranked(w Want) bool {
	return cmp.Or(cmp.Compare(w.Urgency, e.Urgency), cmp.Compare(w.Priority, e.Priority)) >= 0
}

// place puts a unit that is wanted and has no bytes where it waits.
func (m *Machine) place(e *entry) {
	if e.Urgency == Hinted {
		m.enqueue(e)
	} else {
		m.claim(e)
	}
}

// raise is for one more want of a unit whose load waits.
func (m *Machine) raise(e *entry, w Want) {
	if !e.outranked(w) {
		return
	}
	m.rank(e, w)
	switch {
	case e.phase == making:
	case e.reserved || e.Urgency == Hinted:
		m.queue.fix(e)
	default:
		m.queue.remove(e)
		m.claim(e)
	}
}

// Release gives a reference back.
func (m *Machine) Release(u unit.Unit) {
	e := m.entries[u]
	if e == nil || e.refs == 0 {
		return
	}
	if e.refs--; e.refs > 0 {
		return
	}
	switch e.phase {
	case making:
		at := slices.Index(m.making, e)
		m.making = slices.Delete(m.making, at, at+1)
		m.forget(e)
	case queued:
		m.queue.remove(e)
		m.forget(e)
	case standing:
		m.queue.remove(e)
		e.phase = loading
		m.cancel(e)
	case loading:
		m.cancel(e)
	case held:
		m.rest(e)
	case cold, evicting:
	}
	m.settle()
}

// Touch says that a held unit was used.
func (m *Machine) Touch(u unit.Unit) {
	if e := m.entries[u]; e != nil && e.phase == held {
		m.clock++
		e.Used = m.clock
		if e.idle() {
			m.idle.fix(e)
		}
	}
}

// Rerank says that the Order ranks differently now.
func (m *Machine) Rerank() { m.idle.stale, m.queue.stale = true, true }

func (m *Machine) act(k Kind, e *entry) {
	m.actions = append(m.actions, Action{Kind: k, Unit: e.Unit, Bytes: e.Bytes})
}

// Next is the next action that is to be done, until there is none.
func (m *Machine) Next() (a Action, ok bool) {
	if m.done == len(m.actions) {
		m.actions, m.done = m.actions[:0], 0
		return a, false
	}
	m.done++
	return m.actions[m.done-1], true
}

func (m *Machine) settle() {
	m.makeRoom()
	m.begin()
}

// forget is the end of a unit that nobody wants, or that failed.
func (m *Machine) forget(e *entry) {
	if e.reserved {
		m.used -= e.Bytes
		m.tell(e, Cold)
	}
	delete(m.entries, e.Unit)
}

func (m *Machine) tell(e *entry, is Phase) {
	if m.settings.Watch != nil {
		m.settings.Watch(e.Unit, e.Bytes, is)
	}
}

// Phase is where a unit is.
func (m *Machine) Phase(u unit.Unit) Phase {
	if e := m.entries[u]; e != nil {
		return shown[e.phase]
	}
	return Cold
}

// Urgency is the highest with which a unit was wanted since it was cold.
func (m *Machine) Urgency(u unit.Unit) Urgency {
	if e := m.entries[u]; e != nil {
		return e.Urgency
	}
	return Hinted
}

// References is how many a unit has.
func (m *Machine) References(u unit.Unit) int {
	if e := m.entries[u]; e != nil {
		return e.refs
	}
	return 0
}

// Bytes is what a unit takes of the budget.
func (m *Machine) Bytes(u unit.Unit) int64 {
	if e := m.entries[u]; e != nil && e.reserved {
		return e.Bytes
	}
	return 0
}

// Used is the bytes that all units take of the budget.
func (m *Machine) Used() int64 { return m.used }

// Waiting is how many loads wait, for room or a lane, those that stand still included.
func (m *Machine) Waiting() int { return m.queue.len() + len(m.making) }

// Running is how many loads run.
func (m *Machine) Running() int { return len(m.running) }

// Urgency is who waits for a unit.
type Urgency uint8

// The urgencies, in ascending order.
const (
	Hinted   Urgency = iota // nobody yet: a prediction names it
	Planned                 // whoever wants it here, for rows to come
	Demanded                // rows
)

var urgencies = [...]string{"hinted", "planned", "demanded"}

func (u Urgency) String() string { return urgencies[min(int(u), len(urgencies)-1)] }

// Want asks for a unit.
type Want struct {
	Unit  unit.Unit
	Bytes int64
	Urgency
	// Priority is for the Order, within an urgency.
	Priority int64
}

// Item is what an Order may know of a unit. Wanted and Used are larger, the later.
type Item struct {
	Unit  unit.Unit
	Bytes int64
	// Urgency is the highest with which it was wanted since it was cold.
	Urgency
	// Priority is of the want that counts: the most urgent one, of those the highest.
	Priority int64
	// Wanted is when that want came, Used when the last reference was given back or
	// the unit was touched.
	Wanted, Used uint64
}

// Phase is where a unit is in its life.
type Phase uint8

// The phases.
const (
	Cold     Phase = iota
	Queued         // its load has not begun
	Loading        // its load runs, or stands still between pieces
	Held           // it can be used
	Evicting       // the host is to free it
)

var phases = [...]string{"cold", "queued", "loading", "held", "evicting"}

func (p Phase) String() string { return phases[min(int(p), len(phases)-1)] }

// Kind says what the host is to do.
type Kind uint8

// The kinds of actions.
const (
	// Load begins a load; Loaded, Failed or Stopped answers.
	Load Kind = iota
	// Resume lets a load go on that has stood still since a piece's end.
	Resume
	// Cancel ends a load early, whether it runs or stands still; Stopped answers, or
	// what the load's end was before.
	Cancel
	// Evict frees a held unit; Evicted or InUse answers.
	Evict
	// Ready says that those who wait for a unit have it.
	Ready
	// Refuse says that those who wait for a unit do not get it: Room bytes are free, or
	// could be, for its Bytes. Their references are gone.
	Refuse
)

var kinds = [...]string{"load", "resume", "cancel", "evict", "ready", "refuse"}

func (k Kind) String() string { return kinds[min(int(k), len(kinds)-1)] }

// Action is what the host is to do.
type Action struct {
	Kind
	Unit        unit.Unit
	Bytes, Room int64
}
