package rented

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

// Coverage says how often bounds of remote rows hold, over requests, layers and shares of experts.
type Coverage struct {
	// Any are random sets of experts, as the theorem has them, and Least those that are
	// expected to have the fewest rows, which are sent away.
	Any, Least float64
}

// shares of experts that coverage is measured for.
var shares = []float64{0.125, 0.25, 0.5, 0.75}

// ratios returns how many rows came, as parts of the bound.
func (s Shape) ratios(b remoe.Bound, served []Served, foretold func(*Served) []float32) (first, least []float64) {
	for i := range served {
		q := &served[i]
		a := foretold(q)
		for l := range s.Layers {
			rows, expected := q.Demand.Layers[l].Prefill, a[l*s.Experts:(l+1)*s.Experts]
			order := make([]int, s.Experts)
			for e := range order {
				order[e] = e
			}
			slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(expected[x], expected[y]) })
			for _, share := range shares {
				m := int(share * float64(s.Experts))
				if m == 0 {
					continue
				}
				bound, some, low := b.Rows(q.Demand.Prompt, s.TopK, s.Experts, m), 0.0, 0.0
				for e := range m {
					some += rows[(e+l+i)%s.Experts]
					low += rows[order[e]]
				}
				first, least = append(first, some/bound), append(least, low/bound)
			}
		}
	}
	return first, least
}

// Covered returns how often a bound holds for requests.
func (s Shape) Covered(b remoe.Bound, served []Served, foretold func(*Served) []float32) (c Coverage) {
	first, least := s.ratios(b, served, foretold)
	return Coverage{within(first), within(least)}
}

func within(ratios []float64) float64 {
	n := 0
	for _, r := range ratios {
		if r <= 1 {
			n++
		}
	}
	return float64(n) / float64(max(1, len(ratios)))
}

// Calibrate returns what the bound is multiplied with to hold in 95 % of layers, for the experts that
// are sent away. It is measured on requests that are not served afterwards.
func (s Shape) Calibrate(measured []Served, foretold func(*Served) []float32) float64 {
	_, least := s.ratios(remoe.Bound{}, measured, foretold)
	if len(least) == 0 {
		return 1
	}
	slices.Sort(least)
	return max(1e-3, quantile.Of(least, 0.95))
}
