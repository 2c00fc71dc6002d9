package ods

import (
	"cmp"
	"math"
	"slices"
)

// chosen are points of layers, by their index, and what no choice costs less than.
type chosen struct {
	at    []int
	cost  float64
	bound float64
}

// fastest is the choice of each layer's fastest point, and what it takes.
func fastest(layers [][]point) (at []int, seconds float64) {
	at = make([]int, len(layers))
	for _, list := range layers {
		seconds += list[0].latency
	}
	return at, seconds
}

func costOf(layers [][]point, at []int) (cost, seconds float64) {
	for l, i := range at {
		cost, seconds = cost+layers[l][i].cost, seconds+layers[l][i].latency
	}
	return cost, seconds
}

// edge is a step along a layer's lower hull, to a faster and dearer point.
type edge struct {
	layer, to        int
	faster           float64
	dollarsPerSecond float64
}

// knapsack chooses a point of each layer so that all together take no more than a limit and cost
// least. Of more states than so many it goes on with those that promise most: then the bound may be
// below the cost. It is nil where even the fastest points take too long. Every layer has points,
// each later one slower and cheaper.
func knapsack(layers [][]point, limit float64, most int) *chosen {
	return knapsackBelow(layers, limit, most, math.Inf(1))
}

// knapsackBelow is knapsack where only choices below some cost matter: a dearer one need not be the
// cheapest, and the bound is no more than that cost.
func knapsackBelow(layers [][]point, limit float64, most int, below float64) *chosen {
	if _, seconds := fastest(layers); seconds > limit {
		return nil
	}
	at := make([]int, len(layers))
	for l := range layers {
		at[l] = len(layers[l]) - 1
	}
	cost, seconds := costOf(layers, at)
	if seconds <= limit {
		return &chosen{at, cost, cost}
	}
	price := 0.0 // of a second
	for _, e := range edges(layers) {
		at[e.layer] = e.to
		seconds -= e.faster
		price = e.dollarsPerSecond
		if seconds <= limit {
			break
		}
	}
	if cost, seconds = costOf(layers, at); seconds > limit { // rounding
		at, _ = fastest(layers)
		cost, _ = costOf(layers, at)
	}
	return (&search{layers: layers, limit: limit, price: price, most: most, best: chosen{at, cost, cost}, ceiling: min(cost, below)}).run()
}

// edges are those of all layers' lower hulls, the cheapest second first.
func edges(layers [][]point) (all []edge) {
	for l, list := range layers {
		hull := []int{} // from the fastest point on
		for i := range list {
			for len(hull) > 1 && !convex(list[hull[len(hull)-2]], list[hull[len(hull)-1]], list[i]) {
				hull = hull[:len(hull)-1]
			}
			hull = append(hull, i)
		}
		for i := len(hull) - 1; i > 0; i-- {
			from, to := list[hull[i]], list[hull[i-1]]
			e := edge{l, hull[i-1], from.latency - to.latency, 0}
			e.dollarsPerSecond = (to.cost - from.cost) / e.faster
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b edge) int { return cmp.Compare(a.dollarsPerSecond, b.dollarsPerSecond) })
	return all
}

// convex reports whether a point is below the line from the one before it to the one behind it.
func convex(a, b, c point) bool {
	return (a.cost-b.cost)*(c.latency-b.latency) > (b.cost-c.cost)*(b.latency-a.latency)
}

// search goes through the layers with the states that can still become the best.
type search struct {
	layers [][]point
	limit  float64
	price  float64 // of a second: the Lagrangian multiplier
	most   int
	best   chosen
	// ceiling is what a choice has to cost less than.
	ceiling float64
	// Of the layers from one on: the least that their points cost with their seconds' price, and
	// the least seconds.
	priced, least []float64
	dropped       float64 // the least bound of a state that was given up for want of room
}

// state is a choice for the first layers; from is the one before it.
type state struct {
	latency, cost float64
	from, at      int
}

// rounding is how much a bound may be off.
const rounding = 1e-12

func (x *search) run() *chosen {
	n := len(x.layers)
	x.priced, x.least = make([]float64, n+1), make([]float64, n+1)
	for l := n - 1; l >= 0; l-- {
		low := x.of(x.layers[l][0])
		for _, p := range x.layers[l] {
			low = min(low, x.of(p))
		}
		x.priced[l], x.least[l] = x.priced[l+1]+low, x.least[l+1]+x.layers[l][0].latency
	}
	x.dropped = x.ceiling
	all := make([][]state, 0, n+1)
	now := []state{{}}
	for l := range x.layers {
		all = append(all, now)
		now = x.next(l, now)
	}
	x.finish(append(all, now))
	x.best.bound = min(x.ceiling, x.dropped)
	return &x.best
}

func (x *search) of(p point) float64 { return p.cost + x.price*p.latency }

// bound is what no choice costs less than that begins with a state of the layers before l.
func (x *search) bound(l int, s state) float64 {
	return s.cost + x.price*(s.latency-x.limit) + x.priced[l]
}

// next are the states with a layer more.
func (x *search) next(l int, now []state) (to []state) {
	for from, s := range now {
		for at, p := range x.layers[l] {
			one := state{s.latency + p.latency, s.cost + p.cost, from, at}
			if one.latency+x.least[l+1] > x.limit*(1+rounding) {
				break // later points are slower
			}
			if x.bound(l+1, one) < x.ceiling*(1+rounding) {
				to = append(to, one)
			}
		}
	}
	slices.SortFunc(to, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.latency, b.latency), cmp.Compare(a.cost, b.cost), cmp.Compare(a.from, b.from), cmp.Compare(a.at, b.at))
	})
	kept := to[:0]
	for _, s := range to {
		if len(kept) == 0 || s.cost < kept[len(kept)-1].cost {
			kept = append(kept, s)
		}
	}
	return x.roomFor(l, kept)
}

// roomFor gives the least promising states up where there are too many.
func (x *search) roomFor(l int, states []state) []state {
	if len(states) <= x.most {
		return states
	}
	slices.SortFunc(states, func(a, b state) int { return cmp.Compare(x.bound(l+1, a), x.bound(l+1, b)) })
	x.dropped = min(x.dropped, x.bound(l+1, states[x.most]))
	return states[:x.most]
}

// finish takes the cheapest of the last states, if it is cheaper than what is known.
func (x *search) finish(all [][]state) {
	last := all[len(all)-1]
	best := -1
	for i, s := range last {
		if s.latency <= x.limit && s.cost < x.ceiling && (best < 0 || s.cost < last[best].cost) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	x.best.at = slices.Clone(x.best.at)
	x.best.cost, x.ceiling = last[best].cost, last[best].cost
	for l := len(x.layers); l > 0; l-- {
		s := all[l][best]
		x.best.at[l-1], best = s.at, s.from
	}
}
