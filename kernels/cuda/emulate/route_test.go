//go:build emulate

package emulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

// routing is one way to choose experts; the numbers of kinds are in ../src/README.md.
type routing struct {
	kind, e, k, groups, top int
	normalise, pairs        bool
	corrected               bool
	scale                   float32
}

// Experts and weights are those that the formulas give in float64.
func TestRoute(t *testing.T) {
	for _, r := range []routing{
		{kind: 0, e: 8, k: 2, normalise: true},
		{kind: 0, e: 128, k: 8},
		{kind: 0, e: 160, k: 6, groups: 8, top: 3, scale: 16},
		{kind: 1, e: 32, k: 4},
		{kind: 2, e: 256, k: 8, groups: 8, top: 4, pairs: true, corrected: true, normalise: true, scale: 2.5},
		{kind: 3, e: 16, k: 1},
		{kind: 4, e: 16, k: 2},
	} {
		t.Run(fmt.Sprint(r), func(t *testing.T) { testRoute(open(t), r) })
	}
}

const threshold = 0.3

func testRoute(d *device, r routing) {
	const rows = 6
	logits := copied(d, d.noise(rows*r.e))
	copy(logits[r.e:], slices.Repeat([]float32{0.5}, r.e)) // all equal: the lower is better
	correction := []float32(nil)
	if r.corrected {
		correction = copied(d, d.noise(r.e))
	}
	expert, weight := room[int32](d, rows*r.k), room[float32](d, rows*r.k)
	d.run("route", line(rows), line(32), 8*r.e, expert, weight, logits, correction, r.e, r.k, r.kind, r.normalise,
		r.groups, r.top, r.pairs, r.scale, float32(threshold))
	for row := range rows {
		ids, want := r.choose(logits[row*r.e:(row+1)*r.e], correction)
		if got := expert[row*r.k : (row+1)*r.k]; !slices.Equal(got, ids) {
			d.t.Fatalf("row %d: experts %v, want %v", row, got, ids)
		}
		near(d.t, fmt.Sprintf("weights of row %d", row), weight[row*r.k:(row+1)*r.k], want, 1e-5)
	}
}

func (r *routing) choose(logits, correction []float32) (ids []int32, weights []float32) {
	x := make([]float64, len(logits))
	for i, v := range logits {
		x[i] = float64(v)
	}
	switch r.kind {
	case 4:
		return r.sparse(x)
	case 0:
		x = ref.Softmax(x)
	case 2:
		for i, v := range x {
			x[i] = ref.Sigmoid(v)
		}
	}
	ids = r.best(x, correction)
	sum := 0.0
	for _, id := range ids {
		w := x[id]
		if r.kind == 3 {
			w = ref.Sigmoid(w)
		}
		if r.kind == 1 {
			w = math.Exp(w)
		}
		weights, sum = append(weights, float32(w)), sum+w
	}
	for i := range weights {
		if r.normalise || r.kind == 1 {
			weights[i] /= float32(sum)
		}
		weights[i] *= cmp.Or(r.scale, 1)
	}
	return ids, weights
}

// best are the k highest of the groups that count.
func (r *routing) best(x []float64, correction []float32) []int32 {
	choice := make([]float32, len(x))
	for i := range x {
		choice[i] = float32(x[i])
		if correction != nil {
			choice[i] += correction[i]
		}
	}
	if r.groups > 1 {
		r.keep(choice)
	}
	return sorted(choice)[:r.k]
}

func (r *routing) keep(choice []float32) {
	size := len(choice) / r.groups
	scores := make([]float32, r.groups)
	for g := range scores {
		group := slices.Sorted(slices.Values(choice[g*size : (g+1)*size]))
		scores[g] = group[size-1]
		if r.pairs {
			scores[g] += group[size-2]
		}
	}
	for _, g := range sorted(scores)[r.top:] {
		for i := range size {
			choice[int(g)*size+i] = float32(math.Inf(-1))
		}
	}
}

// sorted are the indices of x from the highest value on.
func sorted(x []float32) []int32 {
	ids := make([]int32, len(x))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(x[b], x[a]) })
	return ids
}

func (r *routing) sparse(x []float64) (ids []int32, weights []float32) {
	for range r.k {
		best := slices.Index(x, slices.Max(x))
		near := slices.Clone(x)
		for i, v := range x {
			if (x[best]-v)/max(math.Abs(v), x[best]) > threshold {
				near[i] = math.Inf(-1)
			}
		}
		ids, weights = append(ids, int32(best)), append(weights, float32(ref.Softmax(near)[best]))
		x[best] = math.Inf(-1)
	}
	return ids, weights
}
