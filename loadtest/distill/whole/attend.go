package whole

import (
	"math"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// head is what the attention of one query head needs, of one sequence.
type head struct {
	q, k, v, shares       []float32 // (T, C), and (T, T): what each position takes of each
	out, grad, dq, dk, dv []float32
	turned                []float32
}

// turn rotates the heads of a row's queries and keys to a position, or back from it.
func (l *layer) turn(row []float32, position int, back bool) {
	x := &l.spec.Mixer
	half := x.HeadDim / 2
	for i, f := range l.frequencies {
		sin, cos := math.Sincos(float64(float32(position) * float32(f)))
		if back {
			sin = -sin
		}
		s, c := float32(sin), float32(cos)
		for h := range x.Heads + x.KVHeads {
			at := h*x.HeadDim + i
			a, b := row[at], row[at+half]
			row[at], row[at+half] = a*c-b*s, b*c+a*s
		}
	}
}

// columns copies columns [from, from+c) of the rows (T, width).
func columns(dst, rows []float32, t, width, from, c int) []float32 {
	dst = reuse.Slice(dst, t*c)
	for i := range t {
		copy(dst[i*c:(i+1)*c], rows[i*width+from:])
	}
	return dst
}

// addColumns adds x (T, c) to columns [from, from+c) of the rows (T, width).
func addColumns(rows, x []float32, t, width, from, c int) {
	for i := range t {
		cpu.Add(rows[i*width+from:i*width+from+c], x[i*c:(i+1)*c])
	}
}

// attend computes query head h of a sequence whose rows qkv are.
func (l *layer) attend(s *head, h int, qkv []float32, t int) {
	x := &l.spec.Mixer
	c, width, kv := x.HeadDim, (x.Heads+2*x.KVHeads)*x.HeadDim, h/(x.Heads/x.KVHeads)
	s.q = columns(s.q, qkv, t, width, h*c, c)
	s.k = columns(s.k, qkv, t, width, (x.Heads+kv)*c, c)
	s.v = columns(s.v, qkv, t, width, (x.Heads+x.KVHeads+kv)*c, c)
	s.shares = multiply(s.shares, s.q, t, cpu.PackF32(s.k, t, c))
	for i := range t {
		row := s.shares[i*t : (i+1)*t]
		cpu.Scale(row[:i+1], x.Scale)
		cpu.Softmax(row[:i+1])
		clear(row[i+1:])
	}
}

// mix fills out (T, H·C) from qkv (T, …) of one sequence.
func (l *layer) mix(s *head, out, qkv []float32, t int) {
	x := &l.spec.Mixer
	c := x.HeadDim
	for h := range x.Heads {
		l.attend(s, h, qkv, t)
		s.out = multiply(s.out, s.shares, t, cpu.PackColumns(s.v, c, t))
		for i := range t {
			copy(out[i*x.Heads*c+h*c:], s.out[i*c:(i+1)*c])
		}
	}
}

// unmix adds to back (T, …), the gradient of qkv, what grad (T, H·C), that of mix, makes of it.
func (l *layer) unmix(s *head, back, grad, qkv []float32, t int) {
	x := &l.spec.Mixer
	c, width := x.HeadDim, (x.Heads+2*x.KVHeads)*x.HeadDim
	for h := range x.Heads {
		kv := h / (x.Heads / x.KVHeads)
		l.attend(s, h, qkv, t)
		s.grad = columns(s.grad, grad, t, x.Heads*c, h*c, c)
		s.turned = transposed(s.turned, s.shares, t, t)
		s.dv = multiply(s.dv, s.turned, t, cpu.PackColumns(s.grad, c, t))
		s.out = multiply(s.out, s.grad, t, cpu.PackF32(s.v, t, c)) // of the shares
		for i := range t {
			unsoftmax(s.shares[i*t:(i+1)*t], s.out[i*t:(i+1)*t], i+1, x.Scale)
		}
		s.dq = multiply(s.dq, s.shares, t, cpu.PackColumns(s.k, c, t))
		s.turned = transposed(s.turned, s.shares, t, t)
		s.dk = multiply(s.dk, s.turned, t, cpu.PackColumns(s.q, c, t))
		addColumns(back, s.dq, t, width, h*c, c)
		addColumns(back, s.dk, t, width, (x.Heads+kv)*c, c)
		addColumns(back, s.dv, t, width, (x.Heads+x.KVHeads+kv)*c, c)
	}
}

// unsoftmax makes the gradient of scores from shares and theirs, of the first n, times scale.
func unsoftmax(shares, grad []float32, n int, scale float32) {
	sum := float32(0)
	for i, p := range shares[:n] {
		sum += p * grad[i]
	}
	for i, p := range shares[:n] {
		shares[i] = p * (grad[i] - sum) * scale
	}
}

// unnorm adds to back the gradient of x (D), from that of weight · x / sqrt(mean(x²) + eps).
func unnorm(back, grad, x, weight []float32, eps float32) {
	squares, dot := 0.0, 0.0
	for i, v := range x {
		squares += float64(v) * float64(v)
		dot += float64(v) * float64(weight[i]) * float64(grad[i])
	}
	n := float64(len(x))
	inverse := 1 / math.Sqrt(squares/n+float64(eps))
	scale, along := float32(inverse), float32(dot*inverse*inverse*inverse/n)
	for i, v := range x {
		back[i] += scale*weight[i]*grad[i] - along*v
	}
}
