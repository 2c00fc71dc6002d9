package serverless

import (
	"container/heap"
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
	h := &lightest{sums: sums, heap: make([]int, replicas)}
	for r := range h.heap {
		h.heap[r] = r
	}
	for _, i := range order {
		least := h.heap[0]
		of[i] = least
		sums[least] += loads[i]
		heap.Fix(h, 0)
	}
	return of, sums
}

// lightest is a heap of replicas, the one that has the least first, then the lower one.
type lightest struct {
	sums []float64
	heap []int
}

func (h *lightest) Len() int { return len(h.heap) }

func (h *lightest) Less(i, j int) bool {
	a, b := h.heap[i], h.heap[j]
	if h.sums[a] != h.sums[b] {
		return h.sums[a] < h.sums[b]
	}
	return a < b
}

func (h *lightest) Swap(i, j int) { h.heap[i], h.heap[j] = h.heap[j], h.heap[i] }
func (h *lightest) Push(any)      {}
func (h *lightest) Pop() any      { return nil }
