package ods

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// point is a choice for a layer: every expert's cheapest function that ends in time.
type point struct {
	latency, cost float64
	mode          scatter.Mode
	beta          int
	ends          float64 // the threshold
}

// option is a choice for an expert.
type option struct {
	ends, cost float64
	scatter.Function
}

// problem is a system with rows.
type problem struct {
	*scatter.System
	Settings
	loads   [][]float64
	betas   []int
	partial bool               // not all sizes of minibatches are tried
	found   map[[2]int][]point // of layers and modes without minibatches
}

func newProblem(s *scatter.System, loads [][]float64, set Settings) (*problem, error) {
	if err := s.CheckLoads(loads); err != nil {
		return nil, err
	}
	if set.Betas < 1 || set.States < 1 {
		return nil, fmt.Errorf("%d sizes of minibatches are tried and %d states followed; both must be 1 or more", set.Betas, set.States)
	}
	x := &problem{System: s, Settings: set, loads: loads, found: map[[2]int][]point{}}
	most := 1
	for l, of := range loads {
		for e, d := range of {
			if r := scatter.Rows(d, s.Functions.Replicas); d > 0 && s.Room(slices.Max(s.Functions.Sizes)) < r {
				return nil, &Unfit{Layer: l, Expert: e, Rows: r, Needs: s.Needs(r), Largest: slices.Max(s.Functions.Sizes)}
			}
			most = max(most, scatter.Rows(d, 1))
		}
	}
	x.betas, x.partial = betas(most, set.Betas)
	return x, nil
}

// betas are so many sizes of minibatches up to the most, about evenly spread over their logarithms.
func betas(most, n int) (all []int, partial bool) {
	for i := range n {
		if most <= n {
			if i < most {
				all = append(all, i+1)
			}
			continue
		}
		b := int(math.Round(math.Pow(float64(most), float64(i)/float64(max(1, n-1)))))
		if len(all) == 0 || b > all[len(all)-1] {
			all = append(all, b)
		}
	}
	return all, most > n
}

// options are an expert's for some rows, by when they end: each later one is cheaper.
func (x *problem) options(m scatter.Mode, beta int, relaxed bool, arrival, d float64, into []option) []option {
	into = into[:0]
	before := 0
	for g := 1; g <= x.Functions.Replicas; g++ {
		r := scatter.Rows(d, g)
		if r == before {
			break // more replicas with the same rows only cost more
		}
		before = r
		if m == scatter.Direct && float64(r)*max(x.In, x.Out) > x.Functions.Payload {
			continue
		}
		for _, memory := range x.Functions.Sizes {
			if x.Needs(r) > memory {
				continue
			}
			t := x.seconds(m, beta, relaxed, r, memory)
			f := scatter.Function{Memory: memory, Replicas: g}
			into = append(into, option{x.Ends(m, arrival, r, t), x.Cost(t, f), f})
		}
	}
	slices.SortFunc(into, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.cost, b.cost), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Replicas, b.Replicas))
	})
	kept := into[:0]
	for _, o := range into {
		if len(kept) == 0 || o.cost < kept[len(kept)-1].cost {
			kept = append(kept, o)
		}
	}
	return kept
}

func (x *problem) seconds(m scatter.Mode, beta int, relaxed bool, r int, memory float64) float64 {
	if relaxed {
		return x.Least(r, memory)
	}
	return x.Replica(m, beta, r, memory)
}

// all are the options of a layer's experts that have rows; nil where one of them has none.
func (x *problem) all(l int, m scatter.Mode, beta int, relaxed bool) (of [][]option) {
	if m == scatter.Direct && x.Gathers && x.Answers(x.loads[l]) > x.Functions.Payload {
		return nil
	}
	arrival := x.Arrival(m, beta, x.loads[l])
	var room []option
	of = [][]option{}
	for _, d := range x.loads[l] {
		if d <= 0 {
			continue
		}
		room = x.options(m, beta, relaxed, arrival, d, room)
		if len(room) == 0 {
			return nil
		}
		of = append(of, slices.Clone(room))
	}
	return of
}

// frontier are a layer's points for a mode and a size of minibatches: each later one is slower and
// cheaper. It is nil where the layer cannot have the mode.
func (x *problem) frontier(l int, m scatter.Mode, beta int, relaxed bool) []point {
	of := x.all(l, m, beta, relaxed)
	if of == nil {
		return nil
	}
	type step struct {
		ends  float64
		saves float64
	}
	ends := 0.0 // the least there is
	for _, list := range of {
		ends = max(ends, list[0].ends)
	}
	var steps []step
	total := 0.0
	for _, list := range of {
		for i, o := range list {
			if i == 0 {
				total += o.cost
				continue
			}
			steps = append(steps, step{max(ends, o.ends), list[i-1].cost - o.cost})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.ends, b.ends) })
	points := []point{{0, total, m, beta, ends}}
	for _, s := range steps {
		total -= s.saves
		if last := &points[len(points)-1]; last.ends == s.ends {
			last.cost = total
		} else {
			points = append(points, point{0, total, m, beta, s.ends})
		}
	}
	for i := range points {
		points[i].latency = x.After(m, points[i].ends, x.loads[l])
	}
	return pareto(points)
}

// pareto leaves of points those that no other one is as fast and as cheap as, the fastest first.
func pareto(points []point) []point {
	slices.SortStableFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.latency, b.latency), cmp.Compare(a.cost, b.cost), cmp.Compare(a.mode, b.mode), cmp.Compare(a.beta, b.beta))
	})
	kept := points[:0]
	for _, p := range points {
		if len(kept) == 0 || p.cost < kept[len(kept)-1].cost {
			kept = append(kept, p)
		}
	}
	return kept
}

// layer is the plan of a point.
func (x *problem) layer(l int, p point) scatter.Layer {
	out := scatter.Layer{Mode: p.mode, Experts: make([]scatter.Function, x.Experts)}
	arrival, most := x.Arrival(p.mode, p.beta, x.loads[l]), 1
	var room []option
	for e, d := range x.loads[l] {
		out.Experts[e] = scatter.Function{Memory: x.smallest(), Replicas: 1}
		if d <= 0 {
			continue
		}
		room = x.options(p.mode, p.beta, false, arrival, d, room)
		for _, o := range room {
			if o.ends <= p.ends {
				out.Experts[e] = o.Function
			}
		}
		most = max(most, scatter.Rows(d, out.Experts[e].Replicas))
	}
	if p.mode == scatter.Pipelined {
		out.Beta = min(p.beta, most)
	}
	return out
}

// smallest is the memory of an expert that no rows are foretold for: that of one row.
func (x *problem) smallest() float64 {
	size, _ := x.Functions.Smallest(x.Needs(1)) // Check has found one
	return size
}

// Random draws each layer's mode among those that it can have, and solves for the rest. Where the limit
// cannot be kept so, the layers are as fast as they can be.
func Random(s *scatter.System, loads [][]float64, seconds float64, set Settings, seed uint64) (*Result, error) {
	x, err := newProblem(s, loads, set)
	if err != nil {
		return nil, err
	}
	drawn := make([][]scatter.Mode, s.Layers)
	for l := range drawn {
		var can []scatter.Mode
		for _, m := range scatter.Modes {
			if x.all(l, m, 1, false) != nil {
				can = append(can, m)
			}
		}
		i := int(splitmix.Next(&seed) % uint64(len(can)))
		drawn[l] = can[i : i+1]
	}
	modes := func(l int) []scatter.Mode { return drawn[l] }
	if t, c := x.best(modes, x.left(seconds)); c != nil {
		return x.result(t, c.at, 0), nil
	}
	t := x.points(modes, x.betas, false)
	at, _ := fastest(t)
	return x.result(t, at, 0), nil
}

// LambdaML deploys without a prediction: all experts with the largest memory and one replica, and
// one mode for all layers. A mode other than Direct can always be had.
func LambdaML(s *scatter.System, m scatter.Mode) *scatter.Plan {
	largest := slices.Max(s.Functions.Sizes)
	p := &scatter.Plan{Layers: make([]scatter.Layer, s.Layers)}
	for l := range p.Layers {
		p.Layers[l] = scatter.Layer{Mode: m, Experts: slices.Repeat([]scatter.Function{{Memory: largest, Replicas: 1}}, s.Experts)}
		if m == scatter.Pipelined {
			p.Layers[l].Beta = pipelinedRows
		}
	}
	return p
}

// pipelinedRows are those of minibatches that are not planned, assumed.
const pipelinedRows = 64

// Cluster is a machine with processors that holds the whole model, and is billed all its memory for
// as long as it computes.
type Cluster struct {
	CPU    cost.Roofline
	Memory float64 // bytes
	Price  float64 // dollars for a GB and second
}

// Serve is the bill of a batch: experts of a layer are computed beside each other, so that a layer
// takes the larger of reading what has rows and of multiplying them, and an overhead for each.
func (c *Cluster) Serve(s *scatter.System, loads [][]float64) scatter.Bill {
	b := scatter.Bill{}
	for _, of := range loads {
		read, rows, over := 0.0, 0.0, 0.0
		for _, d := range of {
			if d > 0 {
				read, rows, over = read+s.Expert, rows+d, over+c.CPU.Overhead
			}
		}
		took := over + max(read/c.CPU.Bandwidth, rows*c.CPU.Row(s.Expert))
		b.Layers = append(b.Layers, took)
		b.Seconds += took
	}
	b.Cost = cost.Prices{Memory: c.Price}.Run(c.Memory, b.Seconds)
	b.GBs = meter.Invocation(b.Seconds, c.Memory, 1)
	return b
}
