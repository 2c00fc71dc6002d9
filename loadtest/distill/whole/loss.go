package whole

import (
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// headRows is how many rows have logits at a time.
const headRows = 64

// Hidden is what the head is given of each row (R, D), after Forward. It is valid until the next Forward.
func (l *Lane) Hidden() []float32 {
	l.normed = l.norm(l.normed, l.x, l.net.final, l.net.spec.FinalNorm.Eps)
	return l.normed
}

// Backward makes the gradients of the mean divergence from the distributions that wanted (R, D), the
// Hidden of the same sequences without a brownout, stands for.
func (l *Lane) Backward(wanted []float32) {
	d, m, got := l.net.spec.Hidden, &l.mem, l.Hidden()
	grad := make([]float32, l.rows*d)
	for from := 0; from < l.rows; from += headRows {
		n := min(headRows, l.rows-from)
		l.logits(got, wanted, from, n)
		v := l.net.head.forth.N
		for r := range n {
			is, want := m.logits[r*v:(r+1)*v], m.want[r*v:(r+1)*v]
			cpu.Softmax(is)
			cpu.Softmax(want)
			for i, p := range want {
				is[i] -= p
			}
			cpu.Scale(is, 1/float32(l.rows))
		}
		m.a = multiply(m.a, m.logits, n, l.net.head.back)
		for r := range n {
			at := (from + r) * d
			unnorm(grad[at:at+d], m.a[r*d:(r+1)*d], l.x[at:at+d], l.net.final, l.net.spec.FinalNorm.Eps)
		}
	}
	l.backward(grad)
}

func (l *Lane) logits(got, wanted []float32, from, n int) {
	d, m := l.net.spec.Hidden, &l.mem
	m.logits = multiply(m.logits, got[from*d:(from+n)*d], n, l.net.head.forth)
	m.want = multiply(m.want, wanted[from*d:(from+n)*d], n, l.net.head.forth)
}

// Divergence is the sum over all rows of the divergence that Backward goes against.
func (l *Lane) Divergence(wanted []float32) (sum float64) {
	m, got := &l.mem, l.Hidden()
	for from := 0; from < l.rows; from += headRows {
		n := min(headRows, l.rows-from)
		l.logits(got, wanted, from, n)
		v := l.net.head.forth.N
		for r := range n {
			sum += divergence(m.want[r*v:(r+1)*v], m.logits[r*v:(r+1)*v])
		}
	}
	return sum
}

// divergence is Σ p·(log p − log q) of two rows of logits.
func divergence(p, q []float32) (sum float64) {
	lp, lq := logSum(p), logSum(q)
	for i, v := range p {
		sum += math.Exp(float64(v)-lp) * (float64(v) - lp - float64(q[i]) + lq)
	}
	return sum
}

// logSum is log Σ e^x.
func logSum(x []float32) float64 {
	most, sum := float64(x[0]), 0.0
	for _, v := range x {
		most = max(most, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}
