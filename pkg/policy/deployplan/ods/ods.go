package ods

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
)

// Settings say how plans are searched.
type Settings struct {
	// PerLayer lets each layer have minibatches of its own size; without it all have the same β,
	// as in the paper.
	PerLayer bool
	// Betas is how many sizes of minibatches are tried at most, and States how many choices of the
	// first layers are followed.
	Betas, States int
}

// Default are settings for models of tens of layers.
func Default() Settings { return Settings{Betas: 64, States: 1 << 15} }

// Result is a plan with what it takes for the rows that it was made for.
type Result struct {
	Plan    scatter.Plan
	Cost    float64 // dollars of memory
	Seconds float64
	// Bound is what no plan within the limit costs less than; 0 where that is not known.
	Bound float64
	// Forbidden are the modes that ODS gave up before the limit was kept, and Single says that it took
	// the cheapest plan with one mode.
	Forbidden int
	Single    bool
}

// Gap is how much the plan may be above the cheapest, as a part of that.
func (r *Result) Gap() float64 {
	if !(r.Bound > 0) {
		return math.Inf(1)
	}
	return max(0, r.Cost/r.Bound-1)
}

// ErrInfeasible is of limits that no plan keeps.
var ErrInfeasible = errors.New("no plan keeps the limit")

// Infeasible says what could be kept.
type Infeasible struct {
	Limit, Least float64 // seconds: the limit, and the least that could be one
	Layer        int     // whose fastest choice is the slowest
	LayerSeconds float64
}

func (e *Infeasible) Error() string {
	return fmt.Sprintf("no plan keeps the limit of %.3f s: the fastest takes %.3f s, of which layer %d takes %.3f s; raise the limit to %.3f s, or have fewer rows in a batch",
		e.Limit, e.Least, e.Layer, e.LayerSeconds, math.Ceil(1e3*e.Least)/1e3)
}

// Is makes it ErrInfeasible.
func (*Infeasible) Is(target error) bool { return target == ErrInfeasible }

// Unfit is of an expert whose rows fit into no memory size, whatever its replicas.
type Unfit struct {
	Layer, Expert, Rows int
	Needs, Largest      float64
}

func (e *Unfit) Error() string {
	return fmt.Sprintf("expert %d of layer %d does not fit: a replica with %d rows takes %.0f bytes, and the largest function has %.0f; add a larger size, allow more replicas, or have fewer rows in a batch",
		e.Expert, e.Layer, e.Rows, e.Needs, e.Largest)
}

// Is makes it ErrInfeasible.
func (*Unfit) Is(target error) bool { return target == ErrInfeasible }

// table are points of each layer, with the modes that they may have.
type table [][]point

// points are those of all layers for some modes of each, and sizes of minibatches.
func (x *problem) points(modes func(l int) []scatter.Mode, betas []int, relaxed bool) table {
	t := make(table, x.Layers)
	for l := range t {
		for _, m := range modes(l) {
			if m != scatter.Pipelined {
				t[l] = append(t[l], x.fixed(l, m)...)
				continue
			}
			for _, beta := range betas {
				t[l] = append(t[l], x.frontier(l, m, beta, relaxed)...)
			}
		}
		t[l] = pareto(t[l])
	}
	return t
}

func of(m scatter.Mode, betas []int) []int {
	if m == scatter.Pipelined {
		return betas
	}
	return betas[:1]
}

// fixed is the frontier of a layer with a mode that has no minibatches.
func (x *problem) fixed(l int, m scatter.Mode) []point {
	at := [2]int{l, int(m)}
	list, ok := x.found[at]
	if !ok {
		list = x.frontier(l, m, 1, false)
		x.found[at] = list
	}
	return list
}

func anyMode(int) []scatter.Mode { return scatter.Modes }

// left is what of a limit in seconds is for layers. A little of it is kept for rounding.
func (x *problem) left(seconds float64) float64 { return (seconds - x.Beside()) * (1 - rounding) }

// choices are sets of sizes of minibatches that a plan may have: each by itself, or all of them.
func (x *problem) choices() (sets [][]int) {
	if x.PerLayer {
		return [][]int{x.betas}
	}
	for i := range x.betas {
		sets = append(sets, x.betas[i:i+1])
	}
	return sets
}

// best is the cheapest choice within a limit; nil where there is none. Bound is of all sizes tried.
//
// A plan whose layers have minibatches of their own costs no more than one whose layers share them. So
// where the cheapest of those shares them, it is the cheapest of these, and otherwise bounds them.
func (x *problem) best(modes func(l int) []scatter.Mode, left float64) (t table, c *chosen) {
	all := x.points(modes, x.betas, false)
	if !all.whole() {
		return nil, nil
	}
	own := knapsack(all, left, x.States)
	if own == nil || x.PerLayer || all.shares(own.at) {
		return all, own
	}
	bound, below := math.Inf(1), math.Inf(1)
	for _, betas := range x.choices() {
		points := x.points(modes, betas, false)
		if !points.whole() {
			continue
		}
		if one := knapsackBelow(points, left, x.States, below); one != nil {
			bound = min(bound, one.bound)
			if one.cost < below {
				t, c, below = points, one, one.cost
			}
		}
	}
	if c != nil {
		c.bound = max(bound, own.bound)
	}
	return t, c
}

// shares reports whether all pipelined layers of a choice have minibatches of one size.
func (t table) shares(at []int) bool {
	beta := 0
	for l, i := range at {
		if p := t[l][i]; p.mode == scatter.Pipelined {
			if beta > 0 && p.beta != beta {
				return false
			}
			beta = p.beta
		}
	}
	return true
}

// whole reports whether each layer has a point.
func (t table) whole() bool {
	for _, list := range t {
		if len(list) == 0 {
			return false
		}
	}
	return true
}

// Exact is the cheapest plan within a limit of seconds.
func Exact(s *scatter.System, loads [][]float64, seconds float64, set Settings) (*Result, error) {
	x, err := newProblem(s, loads, set)
	if err != nil {
		return nil, err
	}
	t, c := x.best(anyMode, x.left(seconds))
	if c == nil {
		return nil, x.infeasible(seconds)
	}
	bound := c.bound
	if x.partial {
		bound = min(bound, x.relaxed(x.left(seconds)))
	}
	return x.result(t, c.at, bound), nil
}

// relaxed is what no plan costs less than, whatever the sizes of minibatches.
func (x *problem) relaxed(left float64) float64 {
	if c := knapsack(x.points(anyMode, []int{1}, true), left, x.States); c != nil {
		return c.bound
	}
	return 0
}

// infeasible says what limit could be kept.
func (x *problem) infeasible(seconds float64) error {
	e := &Infeasible{Limit: seconds, Least: math.Inf(1)}
	for _, betas := range x.choices() {
		t := x.points(anyMode, betas, false)
		if _, took := fastest(t); took+x.Beside() < e.Least {
			e.Least, e.LayerSeconds = took+x.Beside(), 0
			for l, list := range t {
				if list[0].latency > e.LayerSeconds {
					e.Layer, e.LayerSeconds = l, list[0].latency
				}
			}
		}
	}
	e.Least /= 1 - 2*rounding // that it is kept when it is asked for
	return e
}

func (x *problem) result(t table, at []int, bound float64) *Result {
	return x.resultOf(t.picked(at), bound)
}

// picked are chosen points.
func (t table) picked(at []int) []point {
	picked := make([]point, len(at))
	for l, i := range at {
		picked[l] = t[l][i]
	}
	return picked
}

func (x *problem) resultOf(picked []point, bound float64) *Result {
	r := &Result{Bound: bound}
	for l, p := range picked {
		r.Plan.Layers = append(r.Plan.Layers, x.layer(l, p))
	}
	b := x.Serve(&r.Plan, x.loads)
	r.Cost, r.Seconds = b.Cost, b.Seconds
	return r
}

// ODS is the paper's plan within a limit of seconds.
func ODS(s *scatter.System, loads [][]float64, seconds float64, set Settings) (*Result, error) {
	x, err := newProblem(s, loads, set)
	if err != nil {
		return nil, err
	}
	solved := make([]single, 0, len(scatter.Modes))
	for _, m := range scatter.Modes {
		solved = append(solved, x.single(m, x.left(seconds)))
	}
	if r := x.mixed(solved, x.left(seconds)); r != nil {
		return r, nil
	}
	var best *single
	for i := range solved {
		if one := &solved[i]; one.keeps && (best == nil || one.cost < best.cost) {
			best = one
		}
	}
	if best == nil {
		return nil, x.infeasible(seconds)
	}
	r := x.resultOf(best.points, 0)
	r.Single, r.Forbidden = true, 2*s.Layers
	return r, nil
}

// single is the plan with one mode: a point of each layer that can have it.
type single struct {
	points []point // of mode None where the layer cannot
	cost   float64
	keeps  bool // the limit, with all layers
}

// single solves for a mode alone. Layers that cannot have it count as long as they take at least in
// another one. Where the limit cannot be kept, each layer is as fast as it can be.
func (x *problem) single(m scatter.Mode, left float64) single {
	out := single{points: make([]point, x.Layers)}
	can, rest := x.can(m)
	if len(can) == 0 {
		return out
	}
	var best, fast *chosen
	var bestOf, fastOf table
	quickest := math.Inf(1)
	if own, c := x.best(func(int) []scatter.Mode { return []scatter.Mode{m} }, left); c != nil {
		return single{own.picked(c.at), c.cost, true}
	}
	for _, betas := range x.choices() {
		if m != scatter.Pipelined && bestOf != nil {
			break // they do not matter
		}
		t := x.points(func(int) []scatter.Mode { return []scatter.Mode{m} }, betas, false)
		some := make(table, 0, len(can))
		for _, l := range can {
			some = append(some, t[l])
		}
		if at, took := fastest(some); took < quickest {
			cost, _ := costOf(some, at)
			quickest, fast, fastOf = took, &chosen{at: at, cost: cost}, some
		}
		if one := knapsack(some, left-rest, x.States); one != nil && (best == nil || one.cost < best.cost) {
			best, bestOf = one, some
		}
	}
	if best == nil {
		best, bestOf = fast, fastOf
	}
	for i, l := range can {
		out.points[l] = bestOf[i][best.at[i]]
	}
	out.cost = best.cost
	return out
}

// can are the layers that can have a mode, and what the others take at least in another one.
func (x *problem) can(m scatter.Mode) (layers []int, rest float64) {
	for l := range x.Layers {
		if x.all(l, m, 1, false) != nil {
			layers = append(layers, l)
			continue
		}
		least := math.Inf(1)
		for _, other := range scatter.Modes {
			for _, beta := range of(other, x.betas) {
				if list := x.frontier(l, other, beta, false); list != nil {
					least = min(least, list[0].latency)
				}
			}
		}
		rest += least
	}
	return layers, rest
}

// mixed takes each layer's cheapest mode, and while the limit is not kept, another one for the
// slowest layer that has one left. It is nil where none is left.
func (x *problem) mixed(solved []single, left float64) *Result {
	forbidden := make([][4]bool, x.Layers)
	for tries := 0; ; tries++ {
		picked, seconds := make([]point, x.Layers), 0.0
		for l := range picked {
			picked[l] = cheapest(solved, l, &forbidden[l])
			seconds += picked[l].latency
		}
		if seconds <= left {
			r := x.resultOf(picked, 0)
			r.Forbidden = tries
			return r
		}
		slowest := -1
		for l, p := range picked {
			now := forbidden[l]
			now[p.mode] = true
			if cheapest(solved, l, &now).mode != scatter.None && (slowest < 0 || p.latency > picked[slowest].latency) {
				slowest = l
			}
		}
		if slowest < 0 {
			return nil
		}
		forbidden[slowest][picked[slowest].mode] = true
	}
}

// cheapest is a layer's point of the cheapest mode that is allowed; of mode None where there is none.
func cheapest(solved []single, l int, forbidden *[4]bool) (best point) {
	for i := range solved {
		p := solved[i].points[l]
		if p.mode != scatter.None && !forbidden[p.mode] && (best.mode == scatter.None || p.cost < best.cost) {
			best = p
		}
	}
	return best
}
