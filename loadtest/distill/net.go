package distill

import (
	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/loadtest/train/networks"
)

// net is an expert: down · (silu(gate·x) · up·x).
type net struct {
	d, f int
	in   *networks.Adam // (2F, D): gate's rows, then up's
	down *networks.Adam // (D, F)

	packedIn, packedDown *cpu.Matrix
}

func newNet(d, f int, in, down []float32) *net {
	n := &net{d: d, f: f, in: networks.NewAdam(in), down: networks.NewAdam(down)}
	n.pack()
	return n
}

func (n *net) pack() {
	n.packedIn, n.packedDown = cpu.PackF32(n.in.W, 2*n.f, n.d), cpu.PackF32(n.down.W, n.d, n.f)
}

func (n *net) round() {
	cpu.RoundBF16(n.in.W)
	cpu.RoundBF16(n.down.W)
	n.pack()
}

// scratch is memory of one goroutine.
type scratch struct {
	inner, act, y, back, turned []float32
}

// run fills out (rows, D) with what the expert gives for x (rows, D).
func (n *net) run(out, x []float32, s *scratch) {
	rows := len(x) / n.d
	s.inner, s.act = reuse.Slice(s.inner, rows*2*n.f), reuse.Slice(s.act, rows*n.f)
	multiply(s.inner, x, rows, n.packedIn)
	for r := range rows {
		both := s.inner[r*2*n.f : (r+1)*2*n.f]
		cpu.SwiGLU(s.act[r*n.f:(r+1)*n.f], both[:n.f], both[n.f:])
	}
	multiply(out, s.act, rows, n.packedDown)
}

// learn takes one step against the gradient of the mean of ‖G·U(x) − T‖² over a batch's rows, as
// a share of norm.
func (n *net) learn(b *rows, norm float64, rate float32, s *scratch) {
	s.y = reuse.Slice(s.y, b.n*n.d)
	n.run(s.y, b.x, s)
	scale := float32(2 / (norm * float64(b.n)))
	for r := range b.n {
		g := b.g[r]
		y, t := s.y[r*n.d:(r+1)*n.d], b.t[r*n.d:(r+1)*n.d]
		for i, v := range y {
			y[i] = scale * g * (g*v - t[i])
		}
	}
	n.backward(b, s)
	n.in.Step(rate)
	n.down.Step(rate)
	n.pack()
}

// backward makes the gradients from that of the outputs, which is in s.y.
func (n *net) backward(b *rows, s *scratch) {
	s.turned = transposed(s.turned, s.y, b.n, n.d)
	multiply(n.down.Grad, s.turned, n.d, cpu.PackColumns(s.act, n.f, b.n))
	s.back = reuse.Slice(s.back, b.n*n.f)
	multiply(s.back, s.y, b.n, cpu.PackColumns(n.down.W, n.f, n.d))
	for r := range b.n {
		both := s.inner[r*2*n.f : (r+1)*2*n.f]
		for i, d := range s.back[r*n.f : (r+1)*n.f] {
			gate, up := both[i], both[n.f+i]
			sigmoid := cpu.Sigmoid(gate)
			both[i] = d * up * sigmoid * (1 + gate*(1-sigmoid))
			both[n.f+i] = d * gate * sigmoid
		}
	}
	s.turned = transposed(s.turned, s.inner, b.n, 2*n.f)
	multiply(n.in.Grad, s.turned, 2*n.f, cpu.PackColumns(b.x, n.d, b.n))
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
