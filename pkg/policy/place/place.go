// Package place decides which host runs each replica of a layer's experts: the
// Expert Placer of MoEless (arXiv:2603.06350, §4.3, algorithm 2) and the
// baselines beside it.
//
// A load is a number of routed rows. Hosts are the paper's GPUs; one's capacity
// is the memory that it has for this layer, and one's load the sum of its
// replicas' loads, to which its time to compute and to communicate is
// proportional (§3.3).
package place

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNoRoom says that a replica fits on no host.
var ErrNoRoom = errors.New("no host has room")

// Expert is an expert whose replicas are to be placed; none of them is one
// that is scaled to zero.
type Expert struct {
	ID       uint32
	Replicas int
	LoadEach float64 // rows of each replica
	Bytes    uint64  // memory of each replica
}

// Host is a host that replicas can be placed on.
type Host struct {
	ID       string
	Capacity uint64 // bytes
}

// Warm is an expert that a host holds, by the placement before.
type Warm struct {
	Expert uint32
	Host   string
}

// State is what a placement is decided on. Hosts of Previous that are gone
// count for nothing.
type State struct {
	Experts  []Expert
	Hosts    []Host
	Previous []Warm
}

// Replica is a replica with its host.
type Replica struct {
	Expert uint32
	Host   string
	Warm   bool // the host holds the expert already
}

// Filled is what a host has got.
type Filled struct {
	ID    string
	Load  float64 // rows
	Bytes uint64
}

// Placement is what is decided.
type Placement struct {
	Replicas []Replica // by expert, then host
	Hosts    []Filled  // by id
}

// Policy places the replicas of one layer. The same state gives the same
// placement, in whatever order its parts are named; it is one that Check
// accepts. The error is ErrNoRoom.
//
// No policy puts a replica on a host that has one of the same expert while
// another host can take it: there it would divide no work. Where none can, it
// goes there all the same (the paper's intra-GPU scaling, §5).
type Policy func(State) (Placement, error)

// MostRows is the largest load that is believed, and MostReplicas how many
// replicas are placed at once.
const (
	MostRows     = 1 << 53
	MostReplicas = 1 << 18
)

// Check says what is wrong with a state.
func Check(s State) error {
	known := make(map[uint32]bool, len(s.Experts))
	replicas := 0
	for _, e := range s.Experts {
		if known[e.ID] {
			return fmt.Errorf("expert %d is named twice; an id stands for one expert", e.ID)
		}
		known[e.ID] = true
		if err := e.check(); err != nil {
			return fmt.Errorf("expert %d: %w", e.ID, err)
		}
		if replicas += e.Replicas; replicas > MostReplicas {
			return fmt.Errorf("the experts up to %d have %d replicas; at most %d are placed", e.ID, replicas, MostReplicas)
		}
	}
	return errors.Join(checkHosts(s.Hosts), checkPrevious(s.Previous, known))
}

func (e Expert) check() error {
	if e.Replicas < 0 || e.Replicas > MostReplicas {
		return fmt.Errorf("replicas is %d; it must be 0 to %d", e.Replicas, MostReplicas)
	}
	if !(e.LoadEach >= 0 && e.LoadEach <= MostRows) {
		return fmt.Errorf("load_each is %g; it must be 0 to %d rows", e.LoadEach, int64(MostRows))
	}
	return nil
}

func checkHosts(hosts []Host) error {
	seen := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		if h.ID == "" {
			return errors.New("a host has no id")
		}
		if seen[h.ID] {
			return fmt.Errorf("host %q is named twice; an id stands for one host", h.ID)
		}
		seen[h.ID] = true
	}
	return nil
}

func checkPrevious(previous []Warm, known map[uint32]bool) error {
	for _, w := range previous {
		if !known[w.Expert] {
			return fmt.Errorf("the previous placement has expert %d on host %q, and there is no such expert", w.Expert, w.Host)
		}
	}
	return nil
}

// byLoad are the experts with most load a replica first, of several the lowest
// id: so all replicas in the order of algorithm 2, line 4.
func byLoad(experts []Expert) []Expert {
	sorted := slices.Clone(experts)
	slices.SortFunc(sorted, func(a, b Expert) int {
		return cmp.Or(cmp.Compare(b.LoadEach, a.LoadEach), cmp.Compare(a.ID, b.ID))
	})
	return sorted
}

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
