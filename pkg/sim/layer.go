package sim

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/world"
)

// replica is an expert in a host's memory, or on its way there.
type replica struct {
	expert, host       int
	since, ready, used float64 // when it took its memory, can compute, last had rows
	billed             float64 // up to when the paper's bill has it
	wanted             bool
	rows               int // in the iteration that runs
}

// layer is the state of a layer between iterations.
type layer struct {
	replicas []replica    // by expert, then host
	slots    int          // replicas that a host may hold
	seen     []world.Held // as policies see replicas
	window   []float64    // rows since the last decision
	last     []float64    // rows of the last iteration
	next     float64      // when the next decision is due
}

// newLayer holds one replica of every expert, dealt to the hosts in turn: static
// expert parallelism, loaded before the clock starts.
func newLayer(s Settings, l int) layer {
	y := layer{slots: s.slots(l), window: make([]float64, s.Model.Experts), last: make([]float64, s.Model.Experts)}
	for x := range s.Model.Experts {
		y.replicas = append(y.replicas, replica{expert: x, host: x % s.Hosts, wanted: true})
	}
	return y
}

func (y *layer) search(expert, host int) (int, bool) {
	return slices.BinarySearchFunc(y.replicas, replica{expert: expert, host: host}, func(a, b replica) int {
		return cmp.Or(a.expert-b.expert, a.host-b.host)
	})
}

// find is the place of a replica, or -1.
func (y *layer) find(expert, host int) int {
	if at, there := y.search(expert, host); there {
		return at
	}
	return -1
}

// resident says whether any host holds an expert.
func (y *layer) resident(expert int) bool {
	at, there := y.search(expert, 0)
	return there || at < len(y.replicas) && y.replicas[at].expert == expert
}

func (y *layer) insert(r replica) {
	at, _ := y.search(r.expert, r.host)
	y.replicas = slices.Insert(y.replicas, at, r)
}

func (y *layer) remove(at int) { y.replicas = slices.Delete(y.replicas, at, at+1) }

func (y *layer) unwant() {
	for i := range y.replicas {
		y.replicas[i].wanted = false
	}
}

// settle ends a decision before the clock starts: what is wanted is there, and
// nothing else.
func (y *layer) settle() {
	y.replicas = slices.DeleteFunc(y.replicas, func(r replica) bool { return !r.wanted })
	for i := range y.replicas {
		r := &y.replicas[i]
		r.since, r.ready, r.used = 0, 0, 0
	}
	clear(y.window)
}

// holds are the replicas that are there, or on their way, as policies see them.
func (y *layer) holds() []world.Held {
	y.seen = y.seen[:0]
	for _, r := range y.replicas {
		y.seen = append(y.seen, world.Held{Unit: r.expert, Host: r.host})
	}
	return y.seen
}

// held is how many replicas a host holds.
func (y *layer) held(host int) (n int) {
	for i := range y.replicas {
		if y.replicas[i].host == host {
			n++
		}
	}
	return n
}

// leastRecent is the unwanted replica of a host that had rows least recently; -1
// if there is none.
func (y *layer) leastRecent(host int) int {
	return y.least(host, func(r replica) bool { return !r.wanted })
}

// spare is the replica of a host, wanted or not, that rows of now can do without:
// of an expert that has none of them, or other replicas. It is -1 if there is none.
func (y *layer) spare(host int, loads []uint32, wanted bool) int {
	return y.least(host, func(r replica) bool {
		return r.wanted == wanted && (loads[r.expert] == 0 || y.copies(r.expert) > 1)
	})
}

// least is the replica of a host, of those that may be, that had rows least recently.
func (y *layer) least(host int, may func(replica) bool) int {
	best := -1
	for i, r := range y.replicas {
		if r.host == host && (best < 0 || r.used < y.replicas[best].used) && may(r) {
			best = i
		}
	}
	return best
}

// copies are an expert's replicas on all hosts.
func (y *layer) copies(expert int) int {
	first, _ := y.search(expert, 0)
	end, _ := y.search(expert+1, 0)
	return end - first
}

// serving are the replicas that take an expert's rows: those that are wanted and
// ready; else, until a new one is, those that were wanted before; else the one
// that is ready first.
func (y *layer) serving(expert int, now float64, to []int) []int {
	first, _ := y.search(expert, 0)
	end, _ := y.search(expert+1, 0)
	for _, wanted := range []bool{true, false} {
		for at := first; at < end; at++ {
			if r := &y.replicas[at]; r.wanted == wanted && r.ready <= now {
				to = append(to, at)
			}
		}
		if len(to) > 0 {
			return to
		}
	}
	for at := first; at < end; at++ {
		if len(to) == 0 {
			to = append(to, at)
		} else if y.replicas[at].ready < y.replicas[to[0]].ready {
			to[0] = at
		}
	}
	return to
}

// count adds an iteration's loads to what is known of the past.
func (y *layer) count(loads []uint32) {
	for x, n := range loads {
		y.window[x] += float64(n)
		y.last[x] = float64(n)
	}
}

// shares are loads as the iteration before had them, for as many rows as this one has.
func (y *layer) shares(loads []uint32) []float64 {
	rows, before := 0.0, 0.0
	for x, n := range loads {
		rows += float64(n)
		before += y.last[x]
	}
	out := make([]float64, len(loads))
	for x := range out {
		if before > 0 {
			out[x] = y.last[x] / before * rows
		} else {
			out[x] = rows / float64(len(loads))
		}
	}
	return out
}
