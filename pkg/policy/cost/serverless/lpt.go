package serverless

import (
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
	of, sums := partition(loads, descending(loads), replicas)
	groups = make([][]int, replicas)
	for i, r := range of {
		groups[r] = append(groups[r], i)
	}
	return groups, slices.Max(sums), nil
}

// descending are the places of loads, which are no NaN, the largest first.
func descending(loads []float64) []int {
	order := make([]int, len(loads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch x, y := loads[a], loads[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return a - b
	})
	return order
}

// partition is Partition of loads that can be, in their order: the replica of each, and what each
// replica has.
func partition(loads []float64, order []int, replicas int) (of []int, sums []float64) {
	of, sums = make([]int, len(loads)), make([]float64, replicas)
	for _, i := range order {
		least := 0
		for r, sum := range sums {
			if sum < sums[least] {
				least = r
			}
		}
		of[i] = least
		sums[least] += loads[i]
	}
	return of, sums
}
