package place

import (
	"cmp"
	"fmt"
	"slices"
)

// fleet is the hosts while replicas are placed on them.
type fleet struct {
	hosts  []host // by id
	placed []placed
	// warm are the hosts that hold each expert from before.
	warm map[uint32][]int
}

// host is a host while replicas are placed on it. All replicas of an expert are
// placed one behind the other, so that it is enough to know of one expert
// whether it is here (last) and was here before (before); noExpert is none.
type host struct {
	Host
	left         uint64 // bytes
	load         float64
	count        int
	last, before int64
}

const noExpert = -1

// placed is a replica with its host, by number.
type placed struct {
	expert uint32
	host   int
	warm   bool
}

func newFleet(s State) *fleet {
	f := &fleet{hosts: make([]host, len(s.Hosts)), warm: make(map[uint32][]int, len(s.Experts)), placed: make([]placed, 0, 2*len(s.Experts))}
	for i, h := range s.Hosts {
		f.hosts[i] = host{Host: h, left: h.Capacity, last: noExpert, before: noExpert}
	}
	slices.SortFunc(f.hosts, func(a, b host) int { return cmp.Compare(a.ID, b.ID) })
	const few = 4 // more hosts of an expert move to memory of their own
	all := make([]int, few*len(s.Experts))
	for _, w := range s.Previous {
		h, here := slices.BinarySearchFunc(f.hosts, w.Host, func(h host, id string) int { return cmp.Compare(h.ID, id) })
		if !here {
			continue
		}
		on, known := f.warm[w.Expert]
		if !known && len(all) > 0 {
			on, all = all[:0:few], all[few:]
		}
		f.warm[w.Expert] = append(on, h)
	}
	return f
}

// begin makes an expert the one whose replicas are placed.
func (f *fleet) begin(e Expert) {
	for _, h := range f.warm[e.ID] {
		f.hosts[h].before = int64(e.ID)
	}
}

func (f *fleet) fits(h int, e Expert) bool  { return f.hosts[h].left >= e.Bytes }
func (f *fleet) holds(h int, e Expert) bool { return f.hosts[h].last == int64(e.ID) }

// put places a replica on a host (algorithm 2, lines 9 and 10).
func (f *fleet) put(e Expert, at int) {
	h := &f.hosts[at]
	f.placed = append(f.placed, placed{expert: e.ID, host: at, warm: h.before == int64(e.ID) && !f.holds(at, e)})
	h.left -= e.Bytes
	h.load += e.LoadEach
	h.count++
	h.last = int64(e.ID)
}

// noRoom says which replica fits on none of some hosts, and how much room there is.
func (f *fleet) noRoom(e Expert, hosts []int) error {
	if len(hosts) == 0 {
		return fmt.Errorf("placing expert %d of %d bytes: %w: there are no hosts", e.ID, e.Bytes, ErrNoRoom)
	}
	most := f.hosts[hosts[0]]
	for _, h := range hosts {
		if f.hosts[h].left > most.left {
			most = f.hosts[h]
		}
	}
	return fmt.Errorf("placing expert %d of %d bytes: %w: host %q has most left, %d of %d bytes; give hosts more memory, or experts fewer replicas",
		e.ID, e.Bytes, ErrNoRoom, most.ID, most.left, most.Capacity)
}

// indices are all hosts, by their ids.
func (f *fleet) indices() []int {
	all := make([]int, len(f.hosts))
	for h := range all {
		all[h] = h
	}
	return all
}

func (f *fleet) placement() Placement {
	slices.SortStableFunc(f.placed, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.expert, b.expert), a.host-b.host)
	})
	p := Placement{Replicas: make([]Replica, len(f.placed)), Hosts: make([]Filled, len(f.hosts))}
	for i, r := range f.placed {
		p.Replicas[i] = Replica{Expert: r.expert, Host: f.hosts[r.host].ID, Warm: r.warm}
	}
	for i, h := range f.hosts {
		p.Hosts[i] = Filled{ID: h.ID, Load: h.load, Bytes: h.Capacity - h.left}
	}
	return p
}
