package remoe

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// selected are the remote experts of a layer: as many as there are to be of those with the lowest
// utility, which is the rows that are expected of them in prefill and decode (section IV-D). Ties
// go to the lower expert.
func selected(r *serverless.Rows, away int) []bool {
	order := make([]int, len(r.Prefill))
	for e := range order {
		order[e] = e
	}
	utility := func(e int) float64 { return r.Prefill[e] + r.Decode[e] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(utility(a), utility(b)) })
	remote := make([]bool, len(order))
	for _, e := range order[:away] {
		remote[e] = true
	}
	return remote
}
