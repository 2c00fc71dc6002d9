package networks

import (
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// learner is a predictor of one layer that learns: a gate, a network, or both,
// whose scores are added.
type learner struct {
	d, e    int
	gate    *Adam    // (E, D), or nil
	network *network // or nil
	adapts  bool     // the network takes wide inputs
	scores  []float32
	more    []float32
	turned  []float32
}

// result are the weights of a learner.
type result struct {
	gate    []float32
	network *predict.Network
}

// score fills scores (rows, E) for x (rows, D), and wide (rows, D+E) of the same.
func (l *learner) score(x, wide []float32, rows int) {
	l.scores, l.more = reuse.Slice(l.scores, rows*l.e), reuse.Slice(l.more, rows*l.e)
	clear(l.scores)
	if l.gate != nil {
		multiply(l.scores, x, rows, cpu.PackF32(l.gate.W, l.e, l.d))
	}
	if l.network != nil {
		l.network.forward(l.more, l.inputs(x, wide), rows)
		cpu.Add(l.scores, l.more)
	}
}

// inputs are those of the network.
func (l *learner) inputs(x, wide []float32) []float32 {
	if l.adapts {
		return wide
	}
	return x
}

// learn takes one step by a batch.
func (l *learner) learn(b *batch, rate float32) {
	l.score(b.x, b.wide, b.rows)
	lossGradient(l.scores, b.target, b.rows, l.e)
	l.turned = transposed(l.turned, l.scores, b.rows, l.e)
	if l.gate != nil {
		multiply(l.gate.Grad, l.turned, l.e, cpu.PackColumns(b.x, l.d, b.rows))
		l.gate.Step(rate)
	}
	if l.network != nil {
		l.network.backward(l.scores, l.turned, l.inputs(b.x, b.wide), b.rows)
		l.network.step(rate)
	}
}

// weights are a copy of what it has learnt.
func (l *learner) weights() (r result) {
	if l.gate != nil {
		r.gate = slices.Clone(l.gate.W)
	}
	if n := l.network; n != nil {
		r.network = &predict.Network{
			Width: n.h, W1: slices.Clone(n.w1.W), B1: slices.Clone(n.b1.W), W2: slices.Clone(n.w2.W), B2: slices.Clone(n.b2.W),
		}
	}
	return r
}

// lossGradient turns scores (rows, E) into the gradient of the mean cross-entropy
// of their softmax with target.
func lossGradient(scores, target []float32, rows, e int) {
	for r := range rows {
		row := scores[r*e : (r+1)*e]
		cpu.Softmax(row)
		for i, t := range target[r*e : (r+1)*e] {
			row[i] = (row[i] - t) / float32(rows)
		}
	}
}

// multiply is dst (rows, N) = x (rows, K) · wᵀ.
func multiply(dst, x []float32, rows int, w *cpu.Matrix) {
	cpu.MatMul(dst, w.N, x, w.K, rows, w, 0, w.Panels())
}

// transposed is x (rows, n) as (n, rows), in dst if it is large enough.
func transposed(dst, x []float32, rows, n int) []float32 {
	dst = reuse.Slice(dst, rows*n)
	for r := range rows {
		for i, v := range x[r*n : (r+1)*n] {
			dst[i*rows+r] = v
		}
	}
	return dst
}
