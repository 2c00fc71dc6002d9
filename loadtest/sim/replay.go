package sim

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Replay says how a trace becomes iterations.
type Replay struct {
	// PerSecond are the iterations of a second of the trace.
	PerSecond int
	// Domains are how many kinds of text there are, and Cycle the time in which
	// the mix has shifted from the first to the last of them and back to the first.
	Domains int
	Cycle   time.Duration
	// Seed is for the requests' domains.
	Seed uint64
}

// Check says what is wrong with the replay.
func (r Replay) Check() error {
	if r.PerSecond < 1 || r.PerSecond > 1000 {
		return fmt.Errorf("there are %d iterations a second; it must be 1 to 1000", r.PerSecond)
	}
	if r.Domains < 1 || r.Cycle <= 0 {
		return fmt.Errorf("%d domains shift in %v; both must be above 0", r.Domains, r.Cycle)
	}
	return nil
}

// Workload replays requests as the paper does (MoEless, §6.1): those that arrive
// within a second are one batch. Its first iteration takes all their prompts, and
// each further one a row of every request whose answer is not at its end. Unlike
// there, iterations are shared by the batches that are under way (continuous
// batching, which the paper emulates), so many in each second of the trace.
//
// Which rows an iteration has does not depend on how fast a policy is: where one
// cannot follow the trace, iterations begin late.
func (r Replay) Workload(rs []trace.Request, g *choices.Generator) (*Workload, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	its, at := r.iterations(rs)
	w, err := NewWorkload(g.Shape, its)
	if err != nil {
		return nil, err
	}
	r.fill(w, rs, at, g)
	return w, nil
}

// first is the slot of the trace, of equal lengths, in which a request's prompt is
// computed; its answer's tokens follow slot by slot, the first token at once.
func (r Replay) first(q trace.Request) int {
	return (int(q.At/time.Second) + 1) * r.PerSecond
}

// iterations are the slots that have rows; at tells which each slot became.
func (r Replay) iterations(rs []trace.Request) (its []Iteration, at []int) {
	var rows []int
	for _, q := range rs {
		first := r.first(q)
		for n := first + max(1, q.Generated); len(rows) < n; {
			rows = append(rows, 0)
		}
		rows[first] += q.Context
		for i := 1; i < q.Generated; i++ {
			rows[first+i]++
		}
	}
	at = make([]int, len(rows))
	for slot, n := range rows {
		at[slot] = len(its)
		if n > 0 {
			its = append(its, Iteration{Due: float64(slot) / float64(r.PerSecond), Rows: n})
		}
	}
	return its, at
}

// fill routes all requests, on as many threads as there are.
func (r Replay) fill(w *Workload, rs []trace.Request, at []int, g *choices.Generator) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(rs); i = int(next.Add(1)) - 1 {
				r.route(w, rs[i], i, at[r.first(rs[i]):], g)
			}
		})
	}
	wait.Wait()
}

// route adds a request's rows to the loads of its iterations.
func (r Replay) route(w *Workload, q trace.Request, id int, at []int, g *choices.Generator) {
	text := routing.Text{ID: uint64(id), Domain: r.Domain(q.At, uint64(id)), Rows: q.Context + max(0, q.Generated-1)}
	prompt := make([]uint32, w.Experts) // loads of one layer, added at its end
	g.Choices(text, func(layer, row int, experts []uint16) {
		if row >= q.Context {
			add(w.Loads(at[row-q.Context+1], layer), experts)
			return
		}
		for _, e := range experts {
			prompt[e]++
		}
		if row == q.Context-1 {
			addAll(w.Loads(at[0], layer), prompt)
		}
	})
}

// add counts a row at each of its experts; other requests add at the same time.
func add(loads []uint32, experts []uint16) {
	for _, e := range experts {
		atomic.AddUint32(&loads[e], 1)
	}
}

func addAll(loads, counts []uint32) {
	for e, n := range counts {
		atomic.AddUint32(&loads[e], n)
	}
	clear(counts)
}

// Domain draws a request's domain by its time: each domain is most frequent at its
// part of the cycle, and the next one takes over smoothly.
func (r Replay) Domain(at time.Duration, id uint64) int {
	phase := math.Mod(float64(at)/float64(r.Cycle), 1) * float64(r.Domains)
	weights, total := make([]float64, r.Domains), 0.0
	for d := range weights {
		away := math.Abs(phase - float64(d) - 0.5)
		away = min(away, float64(r.Domains)-away) // the cycle is round
		weights[d] = math.Exp(-away * away / (2 * reach * reach))
		total += weights[d]
	}
	u := splitmix.Unit(splitmix.Mix(r.Seed^splitmix.Mix(id))) * total
	for d, w := range weights {
		if u -= w; u < 0 {
			return d
		}
	}
	return r.Domains - 1
}

// reach is how far domains reach into their neighbours' part of the cycle, in
// such parts: at its middle a domain has nine tenths of the requests.
const reach = 0.4
