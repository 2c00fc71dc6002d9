package meter

import "math"

// State is what a unit is doing in memory.
type State uint8

// The states of a unit that has memory. A unit that is gone has none.
const (
	gone State = iota
	// Loading is from when memory was set aside for a unit until the unit was held.
	Loading
	// Kept is held, without an access.
	Kept
	// Serving is held, with at least one access.
	Serving
	states
)

// Unit is a meter's record of one unit of one tier. Its owner keeps it; the zero value
// is that of a unit that is gone.
type Unit struct {
	state State
	group int32
	users int32  // accesses that have begun and not ended
	life  uint32 // how often memory was set aside for it
	bytes float64
	since float64 // up to when it is counted
	free  float64 // when its last access ended, or memory was set aside for it
	each  float64 // byte·seconds of an access that had it all along
}

// Access is one use of a unit.
type Access struct {
	life uint32 // of the unit; 0: it was not held
	owed float64
	each float64 // the unit's, when the access began
}

// Meter sums up one tier of one host. It is not safe for concurrent use.
type Meter struct {
	groups []group
	begun  uint64
	loads  uint64
	colds  uint64
	moved  float64
	taken  float64
	bytes  float64
	peak   float64
	told   [states]float64 // what Read has said: sums do not fall by rounding
}

// group is what the units of one group have come to.
type group struct {
	sums [states]float64 // byte·seconds up to what each unit is counted
	// Of the units that are in a state now: their bytes, and these times up to when
	// they are counted.
	bytes, weighted [states]float64
}

// New is a meter of units in so many groups, such as layers or kinds.
func New(groups int) *Meter { return &Meter{groups: make([]group, max(1, groups))} }

// Take sets memory aside for a unit that is gone: its load begins.
func (m *Meter) Take(u *Unit, of int, bytes int64, now float64) {
	if m.place(u, of, bytes, now, Loading) {
		m.begun++
	}
}

// Place has a unit held that is there without a load, as when the clock starts.
func (m *Meter) Place(u *Unit, of int, bytes int64, now float64) { m.place(u, of, bytes, now, Kept) }

func (m *Meter) place(u *Unit, of int, bytes int64, now float64, s State) bool {
	if u.state != gone || uint(of) >= uint(len(m.groups)) {
		return false
	}
	now = after(now, 0)
	*u = Unit{group: int32(of), life: u.life + 1, bytes: float64(max(0, bytes)), since: now, free: now}
	m.bytes += u.bytes
	m.peak = max(m.peak, m.bytes)
	m.enter(u, s)
	return true
}

// Hold says that a unit's load has ended well.
func (m *Meter) Hold(u *Unit, now float64) {
	if u.state != Loading {
		return
	}
	m.move(u, Kept, now)
	m.loads++
	m.moved += u.bytes
}

// Begin says that rows that came at a time begin to use a unit. Of one that is not held
// the access has no cost.
func (m *Meter) Begin(u *Unit, came, now float64) (a Access) {
	if u.state != Kept && u.state != Serving {
		return a
	}
	m.move(u, Serving, now)
	if u.users == 0 {
		a.owed = u.owes(came, u.since)
	}
	u.users++
	a.life, a.each = u.life, u.each
	return a
}

// owes is the wait up to a time that is taken by an access of rows that came at one.
func (u *Unit) owes(came, until float64) float64 {
	return u.bytes * max(0, until-max(u.free, after(came, 0)-Span))
}

// Serve is Begin and End of an access whose end is known beforehand. It is quicker where
// there is no other one.
func (m *Meter) Serve(u *Unit, came, begin, end float64) (took float64) {
	if u.state != Kept {
		return m.End(u, m.Begin(u, came, begin), end)
	}
	g, from := &m.groups[u.group], after(begin, u.since)
	to := after(end, from)
	served := u.bytes * (to - from)
	took = u.owes(came, from) + served
	g.sums[Kept] += u.bytes * (from - u.since)
	g.sums[Serving] += served
	g.weighted[Kept] += u.bytes * (to - u.since)
	u.since, u.free = to, to
	m.taken += took
	return took
}

// End ends an access, and is what it took, in bytes times seconds.
func (m *Meter) End(u *Unit, a Access, now float64) (took float64) {
	if a.life == 0 || a.life != u.life || u.users == 0 {
		return 0
	}
	m.move(u, Serving, now)
	took = a.owed + max(0, u.each-a.each)
	m.taken += took
	if u.users--; u.users == 0 {
		u.free = u.since
		m.move(u, Kept, u.since)
	}
	return took
}

// Drop says that a unit's memory is free.
func (m *Meter) Drop(u *Unit, now float64) {
	if u.state == gone {
		return
	}
	m.leave(u, now)
	m.bytes -= u.bytes
	u.state, u.users = gone, 0
}

// ColdStart counts rows that found what they need not in memory, and waited for it.
func (m *Meter) ColdStart() { m.colds++ }

func (m *Meter) move(u *Unit, to State, now float64) {
	m.leave(u, now)
	m.enter(u, to)
}

func (m *Meter) leave(u *Unit, now float64) {
	g, to := &m.groups[u.group], after(now, u.since)
	spent := u.bytes * (to - u.since)
	g.sums[u.state] += spent
	g.bytes[u.state] -= u.bytes
	g.weighted[u.state] -= u.bytes * u.since
	if g.bytes[u.state] == 0 {
		g.weighted[u.state] = 0 // without what was rounded
	}
	if u.users > 0 {
		u.each += spent / float64(u.users)
	}
	u.since = to
}

func (m *Meter) enter(u *Unit, s State) {
	g := &m.groups[u.group]
	u.state = s
	g.bytes[s] += u.bytes
	g.weighted[s] += u.bytes * u.since
}

// after is a time, but none before another one: a clock that goes back stands still.
func after(t, before float64) float64 {
	if t > before && t <= math.MaxFloat64 {
		return t
	}
	return before
}

// The bills of the papers, in GB·s. Prices are pkg/policy/cost's.

// Layer is what MoEless bills for one layer of one iteration (§3.3, C): the memory of the
// layer's replicas while the layer runs.
func Layer(seconds, bytes float64) float64 { return seconds * bytes / Gigabyte }

// Serverful is what MoEless bills for static expert parallelism, EPLB and the oracle (§6.1):
// all memory, all the time.
func Serverful(s Sums) float64 { return s.Held() }

// Invocation is what Remoe (§III-C: the product of each replica's memory and its run time)
// and BO/ODS (§III-C, eq. 4 and 5) bill for one call of a function: the memory that was
// configured for it, from its start to the end of its last upload, for each of its replicas.
func Invocation(seconds, bytes float64, replicas int) float64 {
	return seconds * bytes / Gigabyte * float64(max(0, replicas))
}

// Gigabyte is the unit of sums, in bytes.
const Gigabyte = 1e9

// Sums are what units have come to. GB·s are gigabytes of units times the seconds that
// they had them.
type Sums struct {
	// Loading, Kept and Serving are GB·s by state. Together they are all memory for as
	// long as it was set aside.
	Loading, Kept, Serving float64
	// Taken are the GB·s that accesses were told. The rest was idle.
	Taken float64
	// Begun are loads that memory was set aside for, Loads those of them that ended well, and
	// Moved the bytes of these.
	Begun uint64
	Loads uint64
	Moved uint64
	// ColdStarts are loads that rows waited for.
	ColdStarts uint64
	// Peak is the most bytes that were set aside at once.
	Peak uint64
	// Seconds are those of the meter's clock.
	Seconds float64
}

// Held are all GB·s.
func (s Sums) Held() float64 { return s.Loading + s.Kept + s.Serving }

// Idle are the GB·s that no access has taken.
func (s Sums) Idle() float64 { return max(0, s.Held()-s.Taken) }

// Mean is the bytes that were set aside, over the meter's time.
func (s Sums) Mean() float64 { return s.Held() * Gigabyte / max(s.Seconds, 1e-9) }

// Read sums up all groups as of now. What it says never falls.
func (m *Meter) Read(now float64) Sums {
	var by [states]float64
	for i := range m.groups {
		m.groups[i].addTo(&by, now)
	}
	for s := range by {
		m.told[s] = max(m.told[s], by[s])
	}
	s := of(m.told)
	s.Taken, s.Begun, s.Loads, s.Moved, s.ColdStarts = m.taken/Gigabyte, m.begun, m.loads, uint64(m.moved), m.colds
	s.Peak, s.Seconds = uint64(m.peak), after(now, 0)
	return s
}

// Group sums up the states of one group as of now; there is nothing of one that is none.
func (m *Meter) Group(i int, now float64) Sums {
	var by [states]float64
	if uint(i) >= uint(len(m.groups)) {
		return Sums{}
	}
	m.groups[i].addTo(&by, now)
	s := of(by)
	s.Seconds = after(now, 0)
	return s
}

func of(by [states]float64) Sums {
	return Sums{Loading: by[Loading] / Gigabyte, Kept: by[Kept] / Gigabyte, Serving: by[Serving] / Gigabyte}
}

// addTo adds byte·seconds, with those of units that are in a state yet.
func (g *group) addTo(by *[states]float64, now float64) {
	for s := range by {
		by[s] += g.sums[s] + max(0, g.bytes[s]*after(now, 0)-g.weighted[s])
	}
}
