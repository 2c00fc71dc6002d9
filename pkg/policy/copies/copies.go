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
)

// Expert is an expert of the layer that is decided on.
type Expert struct {
	ID    uint32
	Load  float64 // rows, predicted or counted
	Bytes uint64  // memory of one replica
}

// State is what is decided on.
type State struct {
	Experts []Expert
	Hosts   []place.Host
	Warm    []place.Warm // what hosts hold, or load
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

// Decide places the replicas of one layer. The same state gives the same placement, in
// whatever order its parts are named. The error is place.ErrNoRoom.
func Decide(s State, set Settings) (place.Placement, error) {
	l := newLayout(s, set)
	if err := l.house(); err != nil {
		return place.Placement{}, err
	}
	l.search()
	return l.placement(), nil
}

// layout is a layer while it is decided on.
type layout struct {
	Settings
	experts []Expert        // by id
	asked   []divide.Expert // the same, with the hosts that hold each
	warm    [][]int         // what they were before
	hosts   []place.Host    // by id
	left    []uint64        // bytes of each that nothing has
	spare   int             // replicas that may still come
	divider *divide.Divider
	shares  []divide.Share
}

func newLayout(s State, set Settings) *layout {
	l := &layout{Settings: set, experts: slices.Clone(s.Experts), hosts: slices.Clone(s.Hosts), spare: set.Spare}
	slices.SortFunc(l.experts, func(a, b Expert) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(l.hosts, func(a, b place.Host) int { return cmp.Compare(a.ID, b.ID) })
	index := make(map[string]int, len(l.hosts))
	l.left = make([]uint64, len(l.hosts))
	for h, host := range l.hosts {
		index[host.ID], l.left[h] = h, host.Capacity
	}
	l.asked = make([]divide.Expert, len(l.experts))
	bytes := 0.0
	for e, x := range l.experts {
		l.asked[e].Rows = int(math.Ceil(x.Load))
		bytes = max(bytes, float64(x.Bytes))
	}
	for _, w := range s.Warm {
		e, known := slices.BinarySearchFunc(l.experts, w.Expert, func(e Expert, id uint32) int { return cmp.Compare(e.ID, id) })
		if h, here := index[w.Host]; here && known && !slices.Contains(l.asked[e].Hosts, h) {
			l.hold(e, h)
		}
	}
	l.warm = make([][]int, len(l.asked))
	for e := range l.asked {
		l.sort(e)
		l.warm[e] = slices.Clone(l.asked[e].Hosts)
		l.spare -= max(0, len(l.asked[e].Hosts)-1)
	}
	l.divider = divide.New(set.Device, bytes, len(l.hosts))
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
		for i := range l.hosts {
			h := divide.Home(e+i, len(l.hosts))
			if l.left[h] >= x.Bytes && (best < 0 || l.left[h] > l.left[best]) {
				best = h
			}
		}
		if best < 0 {
			return fmt.Errorf("placing expert %d of %d bytes: %w: it fits on none of %d hosts", x.ID, x.Bytes, place.ErrNoRoom, len(l.hosts))
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
	for pending := 0; l.spare > 0 && pending <= len(l.hosts) && best-floor > l.Gain*float64(pending+1); pending++ {
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
	l.shares = l.divider.Least(l.shares[:0], l.asked)
}

// floor is what no copies can go below: every expert's weights read once, and all hosts
// equally busy.
func (l *layout) floor() (seconds float64) {
	for e, x := range l.experts {
		seconds += l.Device.Seconds(cost.Access{Bytes: float64(x.Bytes), Rows: l.asked[e].Rows})
	}
	return seconds / float64(max(1, len(l.hosts)))
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
	busy := slices.Clone(l.divider.Busy())
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
	for h := range l.hosts {
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
	divide.HomeFirst(on, e, len(l.hosts))
}

func (l *layout) drop(e, h int) {
	l.asked[e].Hosts = slices.DeleteFunc(l.asked[e].Hosts, func(o int) bool { return o == h })
	l.left[h] += l.experts[e].Bytes
	l.spare++
}

func (l *layout) placement() place.Placement {
	n := 0
	for e := range l.asked {
		n += len(l.asked[e].Hosts)
	}
	p := place.Placement{Hosts: make([]place.Filled, len(l.hosts)), Replicas: make([]place.Replica, 0, n)}
	for h, x := range l.hosts {
		p.Hosts[h].ID = x.ID
	}
	for _, s := range l.shares {
		p.Hosts[s.Host].Load += float64(s.Rows)
	}
	for e, x := range l.experts {
		for _, h := range l.asked[e].Hosts {
			p.Replicas = append(p.Replicas, place.Replica{Expert: x.ID, Host: l.hosts[h].ID, Warm: slices.Contains(l.warm[e], h)})
			p.Hosts[h].Bytes += x.Bytes
		}
	}
	return p
}
