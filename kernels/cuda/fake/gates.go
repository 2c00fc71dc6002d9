package fake

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/cuda"
)

// Gates returns the kernels of gates. Their bits are the CPU's, so package cpu computes them.
func Gates() map[string]Kernel {
	return map[string]Kernel{
		"route_logits_bf16": routeLogits(plain), "route_logits_f32": routeLogits(wide), "route": route,
	}
}

func wide(m *Memory, at cuda.Ptr, n, k int) []float32 { return View[float32](m, at, n*k) }

func routeLogits(read format) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		rows, e, kp := int(a[4]), int(a[5]), int(a[6])
		out := floats(m, a[0], rows*e)
		w := cpu.PackF32(read(m, cuda.Ptr(a[2]), e, kp), e, kp)
		cpu.MatMul(out, e, floats(m, a[1], rows*kp), kp, rows, w, 0, w.Panels())
		for r := 0; r < rows && a[3] != 0; r++ {
			cpu.Add(out[r*e:(r+1)*e], floats(m, a[3], e))
		}
	}
}

// The kinds of gates, as the list of kernels numbers them.
const (
	softmaxTopK = iota
	topKSoftmax
	sigmoidTopK
	topKSigmoid
	sparseMixer
)

// router is a launch of the kernel route.
type router struct {
	kind               int
	correction         []float32 // or nil
	groups, top        int
	pairs, normalise   bool
	scale, threshold   float32
	score, choice, one []float32 // of a row: what weights are made of, what counts, and the best of it
}

func route(m *Memory, l *cuda.Launch) {
	a := l.Args
	e, k := int(a[4]), int(a[5])
	r := router{
		kind: int(a[6]), normalise: a[7] != 0, groups: int(a[8]), top: int(a[9]), pairs: a[10] != 0,
		scale: number(a[11]), threshold: number(a[12]), one: make([]float32, 1),
	}
	if a[3] != 0 {
		r.correction = floats(m, a[3], e)
	}
	for row := range int(l.Grid[0]) {
		r.score = slices.Clone(floats(m, a[2]+uint64(4*row*e), e))
		r.choose(View[int32](m, cuda.Ptr(a[0])+cuda.Ptr(4*row*k), k), floats(m, a[1]+uint64(4*row*k), k))
	}
}

func (r *router) choose(ids []int32, weights []float32) {
	if r.kind == sparseMixer {
		r.mix(ids, weights)
		return
	}
	r.scores()
	cpu.TopK(ids, weights, r.choice)
	for slot, id := range ids {
		weights[slot] = r.score[id]
	}
	switch r.kind {
	case topKSoftmax:
		cpu.Softmax(weights)
	case topKSigmoid:
		sigmoids(weights)
	default:
		r.finish(weights)
	}
}

func (r *router) scores() {
	switch r.kind {
	case softmaxTopK:
		cpu.Softmax(r.score)
	case sigmoidTopK:
		sigmoids(r.score)
	}
	r.choice = slices.Clone(r.score)
	if r.correction != nil {
		cpu.Add(r.choice, r.correction)
	}
	if r.groups > 1 {
		r.keepGroups()
	}
}

func sigmoids(x []float32) {
	for i, v := range x {
		x[i] = cpu.Sigmoid(v)
	}
}

// keepGroups leaves the experts outside of the best groups without a chance.
func (r *router) keepGroups() {
	size := len(r.choice) / r.groups
	scores, ids := make([]float32, r.groups), make([]int32, r.top)
	for g := range scores {
		group := slices.Sorted(slices.Values(r.choice[g*size : (g+1)*size]))
		scores[g] = group[size-1]
		if r.pairs {
			scores[g] += group[size-2]
		}
	}
	cpu.TopK(ids, make([]float32, r.top), scores)
	for i := range r.choice {
		if !slices.Contains(ids, int32(i/size)) {
			r.choice[i] = float32(math.Inf(-1))
		}
	}
}

// finish divides by the sum in the order of slots, and scales.
func (r *router) finish(weights []float32) {
	sum := float32(1e-20)
	for _, w := range weights {
		sum += w
	}
	for i := range weights {
		if r.normalise {
			weights[i] /= sum
		}
		if r.scale != 0 {
			weights[i] *= r.scale
		}
	}
}

// mix takes the best that is left, with its share among those near to it.
func (r *router) mix(ids []int32, weights []float32) {
	for slot := range ids {
		cpu.TopK(ids[slot:slot+1], r.one, r.score)
		best := r.one[0]
		r.choice = append(r.choice[:0], r.score...)
		for i, v := range r.score {
			if (best-v)/max(float32(math.Abs(float64(v))), best) > r.threshold {
				r.choice[i] = float32(math.Inf(-1))
			}
		}
		cpu.Softmax(r.choice)
		weights[slot] = r.choice[ids[slot]]
		r.score[ids[slot]] = float32(math.Inf(-1))
	}
}
