package sim

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// replica is an expert in a host's memory, or on its way there.
type replica struct {
	expert, host int
	ready, used  float64 // when it can compute, last had rows
	billed       float64 // up to when the paper's bill has it
	wanted       bool
	rows         int // in the iteration that runs
	unit         meter.Unit
}

// layer is the state of a layer between iterations.
type layer struct {
	number   int
	replicas []replica            // by expert, then host
	first    []int                // of each expert, and behind the last one, where its replicas begin
	slots    int                  // replicas that a host may hold
	bytes    int64                // of a replica
	tiers    []*residency.Machine // the layer's share of each host's memory
	yields   func(*replica) bool  // which replicas make room for the one that is loaded
	seen     []world.Held         // as policies see replicas
	window   []float64            // rows since the last decision
	last     []float64            // rows of the last iteration
	keep     float64              // seconds for replicas beside others, as decided last; 0 is the policy's
	next     float64              // when the next decision is due
}

// newLayer holds one replica of every expert, dealt to the hosts in turn: static
// expert parallelism, loaded before the clock starts.
func newLayer(s Settings, l int) layer {
	y := layer{number: l, slots: s.slots(l), bytes: s.Model.Profile.Expert(), first: make([]int, s.Model.Experts+1), window: make([]float64, s.Model.Experts), last: make([]float64, s.Model.Experts)}
	for x := range s.Model.Experts {
		y.replicas = append(y.replicas, replica{expert: x, host: divide.Home(x, s.Hosts), wanted: true})
	}
	y.index()
	return y
}

// index finds each expert's replicas anew.
func (y *layer) index() {
	at := 0
	for x := range y.first {
		for at < len(y.replicas) && y.replicas[at].expert < x {
			at++
		}
		y.first[x] = at
	}
}

// search is where a replica is, or belongs.
func (y *layer) search(expert, host int) (at int, there bool) {
	at, end := y.first[expert], y.first[expert+1]
	for at < end && y.replicas[at].host < host {
		at++
	}
	return at, at < end && y.replicas[at].host == host
}

func (y *layer) find(expert, host int) int {
	if at, there := y.search(expert, host); there {
		return at
	}
	return -1
}

func (y *layer) resident(expert int) bool {
	return y.copies(expert) > 0
}

func (y *layer) insert(r replica) {
	at, _ := y.search(r.expert, r.host)
	y.replicas = slices.Insert(y.replicas, at, r)
	y.shift(r.expert, 1)
}

// shift moves what lies behind an expert's replicas.
func (y *layer) shift(expert, by int) {
	for x := expert + 1; x < len(y.first); x++ {
		y.first[x] += by
	}
}

// settle ends a decision before the clock starts: what is wanted is there, and
// nothing else.
func (y *layer) settle() {
	y.replicas = slices.DeleteFunc(y.replicas, func(r replica) bool { return !r.wanted })
	y.index()
	for i := range y.replicas {
		r := &y.replicas[i]
		r.ready, r.used = 0, 0
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

func (y *layer) copies(expert int) int {
	return y.first[expert+1] - y.first[expert]
}

// serving are the replicas that take an expert's rows: those that are wanted and
// ready; else, until a new one is, those that were wanted before; else the one
// that is ready first.
func (y *layer) serving(expert int, now float64, to []int) []int {
	first, end := y.first[expert], y.first[expert+1]
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
