package remoe

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// ErrSizes says that no sizes keep the budget, or that too many were to be kept in mind.
var ErrSizes = errors.New("sizes of functions")

// mostStates bounds the partial choices that leastSizes keeps.
const mostStates = 1 << 16

// leastSizes are the sizes, one a layer, with the least dollars whose seconds keep a budget, and a
// bound below which no choice is. A multiplier of time gives the bound and a first choice; partial
// choices go on while they can still be better than the best, and no other one is better in both.
func leastSizes(t tables, budget float64) (choice []int, bound float64, err error) {
	lambda, choice, bound := multiplier(t, budget)
	if choice == nil {
		return nil, 0, errors.Join(ErrSizes, errors.New("the largest functions take too long for the TPOT"))
	}
	best, _ := t.sum(choice)
	rest, quick := remaining(t, lambda)
	states := [][]state{{{from: -1}}}
	for l := range t.dollars {
		var next []state
		for from, s := range states[l] {
			for v := range t.dollars[l] {
				one := state{s.dollars + t.dollars[l][v], s.seconds + t.seconds[l][v], from, v}
				low := one.dollars + lambda*(one.seconds-budget) + rest[l+1]
				if low < best*(1+1e-12) && one.seconds+quick[l+1] <= budget {
					next = append(next, one)
				}
			}
		}
		if next = undominated(next); len(next) > mostStates {
			return nil, bound, errors.Join(ErrSizes, errors.New("too many choices are as good as the best"))
		}
		states = append(states, next)
	}
	if last := states[len(states)-1]; len(last) > 0 && last[len(last)-1].dollars <= best {
		return traced(states), bound, nil
	}
	return choice, bound, nil
}

// state is a choice for the first layers.
type state struct {
	dollars, seconds float64
	from, size       int
}

// undominated are those of which no other one has less of both, by ascending seconds.
func undominated(all []state) (kept []state) {
	slices.SortFunc(all, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.dollars, b.dollars), cmp.Compare(a.from, b.from), cmp.Compare(a.size, b.size))
	})
	least := math.Inf(1)
	for _, s := range all {
		if s.dollars < least {
			kept, least = append(kept, s), s.dollars
		}
	}
	return kept
}

// traced is the choice that ends in the cheapest of the last states.
func traced(states [][]state) []int {
	choice := make([]int, len(states)-1)
	at := len(states[len(states)-1]) - 1
	for l := len(choice) - 1; l >= 0; l-- {
		s := states[l+1][at]
		choice[l], at = s.size, s.from
	}
	return choice
}

// remaining are, for the layers from each one on, the least of dollars with priced seconds, and
// the least seconds.
func remaining(t tables, lambda float64) (rest, quick []float64) {
	n := len(t.dollars)
	rest, quick = make([]float64, n+1), make([]float64, n+1)
	for l := n - 1; l >= 0; l-- {
		v := priced(t, l, lambda)
		rest[l] = rest[l+1] + t.dollars[l][v] + lambda*t.seconds[l][v]
		quick[l] = quick[l+1] + slices.Min(t.seconds[l])
	}
	return rest, quick
}

// priced is a layer's best size if time costs so much; of equal ones the quickest.
func priced(t tables, l int, lambda float64) (best int) {
	value := func(v int) float64 { return t.dollars[l][v] + lambda*t.seconds[l][v] }
	for v := range t.dollars[l] {
		if a, b := value(v), value(best); a < b || a == b && t.seconds[l][v] < t.seconds[l][best] {
			best = v
		}
	}
	return best
}

// multiplier is the least price of time with which the budget is kept, the choice then (nil where
// there is none), and the largest dual value that was seen.
func multiplier(t tables, budget float64) (lambda float64, choice []int, bound float64) {
	bound = math.Inf(-1)
	try := func(lambda float64) (all []int, keeps bool) {
		for l := range t.dollars {
			all = append(all, priced(t, l, lambda))
		}
		dollars, seconds := t.sum(all)
		bound = max(bound, dollars+lambda*(seconds-budget))
		return all, seconds <= budget
	}
	choice, keeps := try(0)
	if keeps {
		return 0, choice, bound
	}
	low, high := 0.0, 1e-9
	for range 2 * halvings {
		if choice, keeps = try(high); keeps {
			break
		}
		low, high = high, 4*high
	}
	if !keeps {
		return 0, nil, bound
	}
	for range halvings {
		middle := (low + high) / 2
		if all, keeps := try(middle); keeps {
			high, choice = middle, all
		} else {
			low = middle
		}
	}
	return high, choice, bound
}
