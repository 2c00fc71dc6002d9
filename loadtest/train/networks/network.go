package networks

import (
	"math"
	"math/rand/v2"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// network is predict.Network while it learns.
type network struct {
	d, e, h        int       // D is of its own inputs
	w1, b1, w2, b2 *Adam     // (H, D), (H), (E, H), (E)
	inner, back    []float32 // (rows, H): after relu; the gradient of it
	turned         []float32
}

// newNetwork draws the inner layer at random (He et al. 2015). The outer one is
// drawn too, or zero for an adapter, which adds nothing at first.
func newNetwork(d, e, h int, seed uint64, adapter bool) *network {
	r := rand.New(rand.NewPCG(seed, uint64(h)))
	random := func(n, inputs int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(r.NormFloat64() * math.Sqrt(2/float64(inputs)))
		}
		return w
	}
	n := &network{d: d, e: e, h: h, w1: NewAdam(random(h*d, d)), w2: NewAdam(random(e*h, h))}
	n.b1, n.b2 = NewAdam(make([]float32, h)), NewAdam(make([]float32, e))
	if adapter {
		clear(n.w2.W)
	}
	return n
}

// forward is out (rows, E) of x (rows, D).
func (n *network) forward(out, x []float32, rows int) {
	n.inner = reuse.Slice(n.inner, rows*n.h)
	multiply(n.inner, x, rows, cpu.PackF32(n.w1.W, n.h, n.d))
	for r := range rows {
		row := n.inner[r*n.h : (r+1)*n.h]
		cpu.Add(row, n.b1.W)
		for i, v := range row {
			row[i] = max(v, 0)
		}
	}
	multiply(out, n.inner, rows, cpu.PackF32(n.w2.W, n.e, n.h))
	for r := range rows {
		cpu.Add(out[r*n.e:(r+1)*n.e], n.b2.W)
	}
}

// backward makes the gradients from that of the scores (rows, E), also as (E,
// rows), and the inputs x (rows, D).
func (n *network) backward(scores, turned, x []float32, rows int) {
	multiply(n.w2.Grad, turned, n.e, cpu.PackColumns(n.inner, n.h, rows))
	n.back = reuse.Slice(n.back, rows*n.h)
	multiply(n.back, scores, rows, cpu.PackColumns(n.w2.W, n.h, n.e))
	for i, v := range n.inner {
		if v <= 0 {
			n.back[i] = 0
		}
	}
	n.turned = transposed(n.turned, n.back, rows, n.h)
	multiply(n.w1.Grad, n.turned, n.h, cpu.PackColumns(x, n.d, rows))
	sumRows(n.b1.Grad, n.back)
	sumRows(n.b2.Grad, scores)
}

func (n *network) step(rate float32) {
	for _, a := range []*Adam{n.w1, n.b1, n.w2, n.b2} {
		a.Step(rate)
	}
}

// sumRows is dst (N) = the sum of the rows of x (rows, N).
func sumRows(dst, x []float32) {
	clear(dst)
	for ; len(x) > 0; x = x[len(dst):] {
		cpu.Add(dst, x[:len(dst)])
	}
}
