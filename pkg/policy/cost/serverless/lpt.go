package serverless

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Partition divides loads among replicas by Longest Processing Time: the largest first, each to
// the replica that has the least so far. Ties go to the lower load, then the lower replica. Its
// makespan is at most 4/3 - 1/(3z) times the least one (Graham, 1969).
func Partition(loads []float64, replicas int) (groups [][]int, makespan float64, err error) {
	if replicas < 1 {
		return nil, 0, fmt.Errorf("loads are to be divided among %d replicas; there must be 1 or more", replicas)
	}
	for i, v := range loads {
		if !(v >= 0) || math.IsInf(v, 0) {
			return nil, 0, fmt.Errorf("load %d is %v; it must be finite, and 0 or above", i, v)
		}
	}
	groups, sums := partition(loads, replicas)
	return groups, slices.Max(sums), nil
}

// partition is Partition of loads that can be.
func partition(loads []float64, replicas int) (groups [][]int, sums []float64) {
	order := make([]int, len(loads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(loads[b], loads[a]) })
	groups, sums = make([][]int, replicas), make([]float64, replicas)
	for _, i := range order {
		least := 0
		for r, sum := range sums {
			if sum < sums[least] {
				least = r
			}
		}
		groups[least] = append(groups[least], i)
		sums[least] += loads[i]
	}
	for _, g := range groups {
		slices.Sort(g)
	}
	return groups, sums
}
