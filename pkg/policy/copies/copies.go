// Package copies decides which of a layer's experts are copied to further hosts, where
// gates divide rows by the time of accesses (pkg/policy/divide).
//
// A device reads an expert's weights once an access, so a second replica costs a second
// reading: with few rows it makes a layer slower, with many it takes them off the busiest
// host. Every replica that is warm may serve, as the division leaves those alone that do
// not help. What is decided is only what to load beside them: one copy after the other, of
// the experts of the busiest host, until what the next ones save is less than a load has to.
package copies

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Expert is an expert of the layer that is decided on.
type Expert struct {
	Load  float64 // rows, predicted or counted
	Bytes uint64  // memory of one replica
}

// State is what is decided on. Experts and hosts are told by their places.
type State struct {
	Experts []Expert
	Room    []uint64     // bytes of each host for this layer; a host that is gone has none
	Held    []world.Held // what hosts hold, or load
}

// there are the hosts that are not gone, or one.
func (s State) there() (n int) {
	for _, bytes := range s.Room {
		if bytes > 0 {
			n++
		}
	}
	return max(1, n)
}

// Settings bound a decision.
type Settings struct {
	// Device is what an access takes, the messages of its rows included.
	Device cost.Device
	// Gain are the seconds that a layer has to end sooner for each replica that is loaded.
	Gain float64
	// Spare are the replicas beyond each expert's first that there may be.
	Spare int
}

// Decide places the replicas of one layer: by expert, in no order of hosts. The same state
// gives the same placement. The error is place.ErrNoRoom.
func Decide(s State, set Settings) ([]world.Replica, error) {
	l := newLayout(s, set)
	if err := l.house(); err != nil {
		return nil, err
	}
	l.search()
	return l.replicas(), nil
}

// layout is a layer while it is decided on.
type layout struct {
	Settings
	experts []Expert
	asked   []divide.Expert // the same, with the hosts that hold each
	left    []uint64        // bytes of each host that nothing has
	there   int             // hosts that are not gone
	spare   int             // replicas that may still come
	divider *divide.Divider
	now     division  // of the rows
	best    division  // that copy has tried
	busy    []float64 // of now, as copy found it
	idlest  []int     // the hosts with room that are least busy, these first
}

// division is how rows are divided.
type division struct {
	shares []divide.Share
	busy   []float64 // seconds of each host
}

func newLayout(s State, set Settings) *layout {
	l := &layout{Settings: set, experts: s.Experts, left: slices.Clone(s.Room), there: s.there(), spare: set.Spare, asked: make([]divide.Expert, len(s.Experts))}
	bytes := 0.0
	const few = 2 // more of an expert's hosts move to memory of their own
	places := make([]int, few*len(l.asked))
	for e := range s.Experts {
		l.asked[e] = divide.Expert{Rows: int(math.Ceil(s.Experts[e].Load)), Hosts: places[few*e : few*e : few*(e+1)]}
		bytes = max(bytes, float64(s.Experts[e].Bytes))
	}
	for _, x := range s.Held {
		if !slices.Contains(l.asked[x.Unit].Hosts, x.Host) {
			l.hold(x.Unit, x.Host)
		}
	}
	for e := range l.asked {
		l.sort(e)
		l.spare -= max(0, len(l.asked[e].Hosts)-1)
	}
	l.divider = divide.New(set.Device, bytes, len(l.left))
	return l
}

// hold notes that a host has a replica. What a host holds beyond its memory stays there
// until its keep-alive is over, and nothing more comes.
func (l *layout) hold(e, h int) {
	l.asked[e].Hosts = append(l.asked[e].Hosts, h)
	l.left[h] -= min(l.left[h], l.experts[e].Bytes)
}

// house gives each expert that is nowhere a host: the one with fewest experts in its
// memory of those with room, and of equals the one that a deal in turn would give it.
func (l *layout) house() error {
	most, have := uint64(0), 0 // the most memory that is left on a host, and how many have it
	for e, x := range l.experts {
		if len(l.asked[e].Hosts) > 0 {
			continue
		}
		if have == 0 {
			most, have = l.roomiest()
		}
		if have == 0 || most < x.Bytes {
			return fmt.Errorf("placing expert %d of %d bytes: %w: it fits on none of %d hosts", e, x.Bytes, place.ErrNoRoom, len(l.left))
		}
		h := divide.Home(e, len(l.left))
		for l.left[h] != most {
			h = divide.Home(h+1, len(l.left))
		}
		l.hold(e, h)
		have--
	}
	return nil
}

func (l *layout) roomiest() (most uint64, have int) {
	for _, bytes := range l.left {
		if bytes > most {
			most, have = bytes, 0
		}
		if bytes == most {
			have++
		}
	}
	return most, have
}

// search copies experts until the next copies would save less than their loads have to.
// A copy that saves nothing by itself is tried with those after it, as several hosts can
// be equally busy, as long as all of them together could still be worth their loads.
func (l *layout) search() {
	var made []divide.Share
	best, kept := l.divide(), 0
	floor := l.floor()
	for pending := 0; l.spare > 0 && pending <= len(l.left) && best-floor > l.Gain*float64(pending+1); pending++ {
		c, ends := l.copy()
		if math.IsInf(ends, 1) {
			break
		}
		made = append(made, c)
		if ends+l.Gain*float64(pending+1) < best {
			best, kept, pending = ends, len(made), -1
		}
	}
	for _, c := range made[kept:] {
		l.drop(c.Expert, c.Host)
	}
}

// floor is what no copies can go below: every expert's weights read once, and all hosts
// equally busy.
func (l *layout) floor() (seconds float64) {
	for e, x := range l.experts {
		seconds += l.Device.Seconds(cost.Access{Bytes: float64(x.Bytes), Rows: l.asked[e].Rows})
	}
	return seconds / float64(l.there)
}

func (l *layout) divide() (seconds float64) {
	l.now.shares = l.divider.Spread(l.now.shares[:0], l.asked)
	l.now.busy = append(l.now.busy[:0], l.divider.Busy()...)
	return l.divider.Ends()
}

// tried is of how many experts of the busiest host, those with most rows first, copy
// compares the copies. A host of a large model holds dozens, and each costs a division.
const tried = 3

// copy adds the copy of an expert of the busiest host to the least busy host without it
// that ends the layer soonest, and says when that is: never, if there is none.
func (l *layout) copy() (made divide.Share, ends float64) {
	l.busy = append(l.busy[:0], l.now.busy...)
	of := l.of(busiest(l.busy))
	of = of[:min(tried, len(of))]
	l.idle(of)
	ends = math.Inf(1)
	for _, e := range of {
		h := l.target(e)
		if h < 0 {
			continue
		}
		l.add(e, h)
		if t := l.divide(); t < ends {
			ends, made = t, divide.Share{Expert: e, Host: h}
			l.now, l.best = l.best, l.now
		}
		l.drop(e, h)
	}
	if !math.IsInf(ends, 1) {
		l.add(made.Expert, made.Host)
		l.now, l.best = l.best, l.now
	}
	return made, ends
}

func busiest(busy []float64) (host int) {
	for h, b := range busy {
		if b > busy[host] {
			host = h
		}
	}
	return host
}

// of are the experts that have rows on a host by the last division, those with most first.
func (l *layout) of(host int) (experts []int) {
	var on []divide.Share
	for _, s := range l.now.shares {
		if s.Host == host {
			on = append(on, s)
		}
	}
	slices.SortFunc(on, func(a, b divide.Share) int { return cmp.Or(b.Rows-a.Rows, a.Expert-b.Expert) })
	for _, s := range on {
		experts = append(experts, s.Expert)
	}
	return experts
}

// idle notes the hosts that are least busy of those with room for one of some experts, in
// the order in which target wants them.
func (l *layout) idle(of []int) {
	least := uint64(math.MaxUint64)
	for _, e := range of {
		least = min(least, l.experts[e].Bytes)
	}
	l.idlest = l.idlest[:0]
	for h := range l.left {
		if l.left[h] < least {
			continue
		}
		at := len(l.idlest)
		for at > 0 && l.busy[h] < l.busy[l.idlest[at-1]] {
			at--
		}
		if at < known {
			l.idlest = slices.Insert(l.idlest[:min(len(l.idlest), known-1)], at, h)
		}
	}
}

// known is how many of the least busy hosts are looked at before all.
const known = 4

// target is the least busy host with room that does not hold an expert; -1 if none is. It is
// asked about those that idle was.
func (l *layout) target(e int) int {
	has := func(h int) bool { return l.left[h] >= l.experts[e].Bytes && !slices.Contains(l.asked[e].Hosts, h) }
	for _, h := range l.idlest {
		if has(h) {
			return h
		}
	}
	best := -1
	for h := range l.left {
		if has(h) && (best < 0 || l.busy[h] < l.busy[best]) {
			best = h
		}
	}
	return best
}

func (l *layout) add(e, h int) {
	l.hold(e, h)
	l.sort(e)
	l.spare--
}

// sort puts an expert's home before its other hosts.
func (l *layout) sort(e int) {
	on := l.asked[e].Hosts
	if len(on) < 2 {
		return
	}
	slices.Sort(on)
	divide.HomeFirst(on, e, len(l.left))
}

func (l *layout) drop(e, h int) {
	l.asked[e].Hosts = slices.DeleteFunc(l.asked[e].Hosts, func(o int) bool { return o == h })
	l.left[h] += l.experts[e].Bytes
	l.spare++
}

func (l *layout) replicas() []world.Replica {
	n := 0
	for e := range l.asked {
		n += len(l.asked[e].Hosts)
	}
	all := make([]world.Replica, 0, n)
	for e := range l.asked {
		for _, h := range l.asked[e].Hosts {
			all = append(all, world.Replica{Unit: e, Host: h})
		}
	}
	return all
}
