package networks

import (
	"math/rand/v2"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Examples are what the predictor of one target layer learns from, by row.
type Examples struct {
	Hidden, Experts, TopK int       // D, E, k
	X                     []float32 // (R, D): gate inputs of the layer that it predicts from
	Wide                  []float32 // (R, D+E): what predict.Source makes of X, for adapters
	Chosen                []int32   // (R, k): what the target's gate chose
	Soft                  []float32 // (R, E): the target gate's probabilities
}

// Rows is R.
func (e *Examples) Rows() int { return len(e.Chosen) / e.TopK }

// batch is a few examples in an order of their own.
type batch struct {
	rows            int
	x, wide, target []float32 // (rows, D), (rows, D+E), (rows, E)
}

// take fills b with the examples of an order.
func (b *batch) take(e *Examples, order []int, softness float32) {
	b.rows, b.x, b.wide, b.target = len(order), b.x[:0], b.wide[:0], b.target[:0]
	width := e.Hidden + e.Experts
	for _, i := range order {
		b.x = append(b.x, e.X[i*e.Hidden:(i+1)*e.Hidden]...)
		b.wide = append(b.wide, e.Wide[i*width:(i+1)*width]...)
		b.target = append(b.target, e.Soft[i*e.Experts:(i+1)*e.Experts]...)
		row := b.target[len(b.target)-e.Experts:]
		cpu.Scale(row, softness)
		for _, c := range e.Chosen[i*e.TopK : (i+1)*e.TopK] {
			row[c] += (1 - softness) / float32(e.TopK)
		}
	}
}

// deal deals all rows out to batches, in an order that seed and pass say.
func (s *Settings) deal(rows, pass int, each func(order []int)) {
	all := rand.New(rand.NewPCG(s.Seed, uint64(pass))).Perm(rows)
	for order := range slices.Chunk(all, s.Batch) {
		each(order)
	}
}
