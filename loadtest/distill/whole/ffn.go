package whole

import (
	"math"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/loadtest/train/networks"
)

// linear is y = W·x, with the transpose for gradients.
type linear struct{ forth, back *cpu.Matrix }

func newLinear(w []float32, n, k int) linear {
	return linear{cpu.PackF32(w, n, k), cpu.PackColumns(w, k, n)}
}

// multiply is dst (rows, N) = x (rows, K) · wᵀ, in dst's memory if that suffices.
func multiply(dst, x []float32, rows int, w *cpu.Matrix) []float32 {
	dst = reuse.Slice(dst, rows*w.N)
	cpu.MatMul(dst, w.N, x, w.K, rows, w, 0, w.Panels())
	return dst
}

// ffn is down · (silu(gate·x) · up·x).
type ffn struct {
	d, f     int
	in, down linear // (2F, D): gate's rows, then up's; (D, F)
}

func newFFN(d, f int, in, down []float32) *ffn {
	return &ffn{d: d, f: f, in: newLinear(in, 2*f, d), down: newLinear(down, d, f)}
}

// passed is what a network was given and made of it.
type passed struct {
	n               int
	x, inner, y     []float32 // (n, D), (n, 2F), (n, D)
	act, grad, back []float32
}

func (e *ffn) run(p *passed) {
	p.inner = multiply(p.inner, p.x, p.n, e.in.forth)
	e.activate(p)
	p.y = multiply(p.y, p.act, p.n, e.down.forth)
}

func (e *ffn) activate(p *passed) {
	p.act = reuse.Slice(p.act, p.n*e.f)
	for r := range p.n {
		both := p.inner[r*2*e.f : (r+1)*2*e.f]
		cpu.SwiGLU(p.act[r*e.f:(r+1)*e.f], both[:e.f], both[e.f:])
	}
}

// backward makes p.back (n, D), the gradient of p.x, from p.grad, that of p.y; into takes those of the
// weights, unless it is nil. What p knows of the way forth is lost.
func (e *ffn) backward(p *passed, into *Gradient, turned *[]float32) {
	if into != nil {
		*turned = transposed(*turned, p.grad, p.n, e.d)
		into.Down = multiply(into.Down, *turned, e.d, cpu.PackColumns(p.act[:p.n*e.f], e.f, p.n))
	}
	p.act = multiply(p.act, p.grad, p.n, e.down.back)
	for r := range p.n {
		both := p.inner[r*2*e.f : (r+1)*2*e.f]
		for i, d := range p.act[r*e.f : (r+1)*e.f] {
			gate, up := both[i], both[e.f+i]
			sigmoid := float32(1 / (1 + math.Exp(float64(-gate))))
			both[i] = d * up * sigmoid * (1 + gate*(1-sigmoid))
			both[e.f+i] = d * gate * sigmoid
		}
	}
	if into != nil {
		*turned = transposed(*turned, p.inner, p.n, 2*e.f)
		into.In = multiply(into.In, *turned, 2*e.f, cpu.PackColumns(p.x[:p.n*e.d], e.d, p.n))
	}
	p.back = multiply(p.back, p.inner, p.n, e.in.back)
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

// Gradient is that of a student's weights; nil: none of its rows came.
type Gradient struct{ In, Down []float32 }

// Student is a network that learns, of an expert's shape.
type Student struct {
	ffn
	In, Down *networks.Adam // (2F, D): gate's rows, then up's; (D, F)
}

// NewStudent begins with weights, which it changes.
func NewStudent(d, f int, in, down []float32) *Student {
	s := &Student{ffn: ffn{d: d, f: f}, In: networks.NewAdam(in), Down: networks.NewAdam(down)}
	s.Pack()
	return s
}

// Pack takes over what the weights have become.
func (s *Student) Pack() { s.ffn = *newFFN(s.d, s.f, s.In.W, s.Down.W) }
