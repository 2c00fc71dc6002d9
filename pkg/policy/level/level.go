// Package level decides the replicas of a layer's experts and their hosts in one,
// beside MoEless' two algorithms (arXiv:2603.06350, §4.2 and §4.3), which do it one
// after the other.
//
// A layer lasts as long as its most loaded host. Algorithm 1 evens out the loads
// of replicas, of which there are then seldom as many on each host, and algorithm
// 2 puts one where its expert is warm, however loaded that host is. Here the loads
// of hosts are what is evened out: at first all warm replicas serve; then, as long
// as the most loaded host can be relieved, one of its replicas ceases to serve, or
// is moved or copied to another host, whichever leaves least on the hosts that it
// touches. What has to be loaded for that must save a number of rows.
package level

import (
	"cmp"
	"fmt"
	"slices"

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
	Experts  []Expert
	Hosts    []place.Host
	Previous []place.Warm // what hosts hold
	Serving  []place.Warm // what of it serves
}

// Settings bound a decision.
type Settings struct {
	// Tolerance is the part by which the most loaded host may exceed the mean.
	Tolerance float64
	// Gain are the rows that a replica must take from the most loaded host to be
	// worth loading.
	Gain float64
	// Spare are the replicas beyond each expert's first that there may be.
	Spare int
}

// Decide places the replicas of one layer. The same state gives the same
// placement, in whatever order its parts are named. The error is place.ErrNoRoom.
func Decide(s State, set Settings) (place.Placement, error) {
	best := newLayout(s, set)
	if err := best.house(); err != nil {
		return place.Placement{}, err
	}
	best.trim()
	if best.enough() {
		return best.placement(), nil
	}
	best.search()
	for n := 2 * len(s.Hosts); n <= len(s.Experts)+set.Spare && n <= mostEach*len(s.Hosts); n += len(s.Hosts) {
		if l := newLayout(s, set); !best.enough() && n >= len(s.Experts) && l.pack(n) {
			l.search()
			if l.score() < best.score() {
				best = l
			}
		}
	}
	return best.placement(), nil
}

// mostEach bounds the replicas a host for which a new packing is tried.
const mostEach = 4

// enough says whether what could still be saved is not worth a load.
func (l *layout) enough() bool {
	return l.hosts[l.top()].load <= max((1+l.Tolerance)*l.mean, l.mean+l.Gain)
}

// score is what a layout takes, in rows: those of its most loaded host, and those
// that each load has to save.
func (l *layout) score() float64 {
	loads := 0
	for e := range l.experts {
		for _, h := range l.experts[e].on {
			if !slices.Contains(l.experts[e].warm, h) {
				loads++
			}
		}
	}
	return l.hosts[l.top()].load + l.Gain*float64(loads)
}

// search relieves hosts as long as that works.
func (l *layout) search() {
	for range mostSteps * (len(l.experts) + len(l.hosts)) {
		if !l.relieve() {
			return
		}
	}
}

// mostSteps bounds the steps of a decision, by experts and hosts.
const mostSteps = 4

// layout is a layer while it is decided on.
type layout struct {
	Settings
	experts []expert // by id
	hosts   []host   // by id
	mean    float64
	serving int
}

type expert struct {
	Expert
	on   []int // hosts that serve it
	warm []int // hosts that hold it
	was  []int // hosts that served it before
}

type host struct {
	place.Host
	left uint64 // bytes that no serving replica has
	load float64
	on   []int // experts that it serves
}

func newLayout(s State, set Settings) *layout {
	l := &layout{Settings: set}
	for _, e := range s.Experts {
		l.experts = append(l.experts, expert{Expert: e})
		l.mean += e.Load / float64(max(1, len(s.Hosts)))
	}
	for _, h := range s.Hosts {
		l.hosts = append(l.hosts, host{Host: h, left: h.Capacity})
	}
	slices.SortFunc(l.experts, func(a, b expert) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(l.hosts, func(a, b host) int { return cmp.Compare(a.ID, b.ID) })
	index := make(map[string]int, len(l.hosts))
	for h := range l.hosts {
		index[l.hosts[h].ID] = h
	}
	l.where(index, s.Previous, func(x *expert) *[]int { return &x.warm })
	l.where(index, s.Serving, func(x *expert) *[]int { return &x.was })
	return l
}

// where notes the hosts of experts, each once and in the order of their ids.
func (l *layout) where(index map[string]int, all []place.Warm, of func(*expert) *[]int) {
	for _, w := range all {
		e, known := slices.BinarySearchFunc(l.experts, w.Expert, func(e expert, id uint32) int { return cmp.Compare(e.ID, id) })
		if h, here := index[w.Host]; here && known {
			on := of(&l.experts[e])
			*on = append(*on, h)
		}
	}
	for e := range l.experts {
		on := of(&l.experts[e])
		slices.Sort(*on)
		*on = slices.Compact(*on)
	}
}

// house lets every replica serve on that did, and gives an expert without one
// the host with least load.
func (l *layout) house() error {
	for e := range l.experts {
		x := &l.experts[e]
		for _, h := range x.was {
			if l.hosts[h].left >= x.Bytes {
				l.add(e, h)
			}
		}
	}
	for _, e := range l.order(func(e int) float64 { return l.experts[e].Load }) {
		x := &l.experts[e]
		if len(x.on) > 0 {
			continue
		}
		h := l.least(e)
		if h < 0 {
			return fmt.Errorf("placing expert %d of %d bytes: %w: it fits on none of %d hosts", x.ID, x.Bytes, place.ErrNoRoom, len(l.hosts))
		}
		l.add(e, h)
	}
	return nil
}

// order are the experts, the one with most first.
func (l *layout) order(load func(e int) float64) []int {
	order := make([]int, len(l.experts))
	for e := range order {
		order[e] = e
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load(b), load(a)) })
	return order
}

// trim ends replicas above the number that there may be, those with least load first.
func (l *layout) trim() {
	for l.serving > len(l.experts)+l.Spare {
		best := -1
		for e := range l.experts {
			x := &l.experts[e]
			if len(x.on) > 1 && (best < 0 || x.each() < l.experts[best].each()) {
				best = e
			}
		}
		if best < 0 {
			return
		}
		l.remove(best, l.fullest(best))
	}
}

// fullest is the most loaded host that serves an expert.
func (l *layout) fullest(e int) int {
	on := l.experts[e].on
	best := on[0]
	for _, h := range on[1:] {
		if l.hosts[h].load > l.hosts[best].load {
			best = h
		}
	}
	return best
}

// each is the load of each replica.
func (x *expert) each() float64 { return x.Load / float64(len(x.on)) }

// add lets a host serve an expert.
func (l *layout) add(e, h int) {
	l.change(e, func(x *expert) { x.on = append(x.on, h) })
	l.serve(e, h)
}

// serve notes that a host serves an expert.
func (l *layout) serve(e, h int) {
	l.hosts[h].on = append(l.hosts[h].on, e)
	l.hosts[h].left -= l.experts[e].Bytes
	l.serving++
}

// remove lets a host serve an expert no more.
func (l *layout) remove(e, h int) {
	l.change(e, func(x *expert) { x.on = slices.DeleteFunc(x.on, func(o int) bool { return o == h }) })
	l.hosts[h].on = slices.DeleteFunc(l.hosts[h].on, func(o int) bool { return o == e })
	l.hosts[h].left += l.experts[e].Bytes
	l.serving--
}

// change takes an expert's load off its hosts and puts it on those that it has then.
func (l *layout) change(e int, change func(*expert)) {
	x := &l.experts[e]
	for _, h := range x.on {
		l.hosts[h].load -= x.each()
	}
	change(x)
	for _, h := range x.on {
		l.hosts[h].load += x.each()
	}
}

func (l *layout) placement() place.Placement {
	p := place.Placement{Hosts: make([]place.Filled, len(l.hosts))}
	for _, x := range l.experts {
		slices.Sort(x.on)
		for _, h := range x.on {
			p.Replicas = append(p.Replicas, place.Replica{Expert: x.ID, Host: l.hosts[h].ID, Warm: slices.Contains(x.warm, h)})
		}
	}
	for h, x := range l.hosts {
		p.Hosts[h] = place.Filled{ID: x.ID, Load: max(0, x.load), Bytes: x.Capacity - x.left}
	}
	return p
}
