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
	shares  []divide.Share
	busy    []float64 // as copy found it
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
	for e, x := range l.experts {
		if len(l.asked[e].Hosts) > 0 {
			continue
		}
		best := -1
		for i := range l.left {
			h := divide.Home(e+i, len(l.left))
			if l.left[h] >= x.Bytes && (best < 0 || l.left[h] > l.left[best]) {
				best = h
			}
		}
		if best < 0 {
			return fmt.Errorf("placing expert %d of %d bytes: %w: it fits on none of %d hosts", e, x.Bytes, place.ErrNoRoom, len(l.left))
		}
		l.hold(e, best)
	}
	return nil
}

// search copies experts until the next copies would save less than their loads have to.
// A copy that saves nothing by itself is tried with those after it, as several hosts can
// be equally busy, as long as all of them together could still be worth their loads.
func (l *layout) search() {
	var made []divide.Share
	best, kept := l.divide(), 0
	floor := l.floor()
	for pending := 0; l.spare > 0 && pending <= len(l.left) && best-floor > l.Gain*float64(pending+1); pending++ {
		c, ok := l.copy()
		if !ok {
			break
		}
		made = append(made, c)
		if ends := l.divide(); ends+l.Gain*float64(pending+1) < best {
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

// divide divides the rows, and says when the busiest host is done.
func (l *layout) divide() (seconds float64) {
	l.shares = l.divider.Spread(l.shares[:0], l.asked)
	return slices.Max(append(l.divider.Busy(), 0))
}

// tried is of how many experts of the busiest host, those with most rows first, copy
// compares the copies. A host of a large model holds dozens, and each costs a division.
const tried = 3

// copy adds the copy of an expert of the busiest host to the least busy host without it
// that ends the layer soonest.
func (l *layout) copy() (made divide.Share, ok bool) {
	l.busy = append(l.busy[:0], l.divider.Busy()...)
	busy := l.busy
	of := l.of(busiest(busy))
	soonest := math.Inf(1)
	for _, e := range of[:min(tried, len(of))] {
		h := l.target(busy, e)
		if h < 0 {
			continue
		}
		l.add(e, h)
		if t := l.divide(); t < soonest {
			soonest, made, ok = t, divide.Share{Expert: e, Host: h}, true
		}
		l.drop(e, h)
	}
	if ok {
		l.add(made.Expert, made.Host)
	}
	return made, ok
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
	for _, s := range l.shares {
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

// target is the least busy host with room that does not hold an expert; -1 if none is.
func (l *layout) target(busy []float64, e int) int {
	best := -1
	for h := range l.left {
		if l.left[h] >= l.experts[e].Bytes && !slices.Contains(l.asked[e].Hosts, h) && (best < 0 || busy[h] < busy[best]) {
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
