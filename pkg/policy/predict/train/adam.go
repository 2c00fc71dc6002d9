package train

import "math"

// adam are weights with the moments of their gradients (Kingma and Ba 2015,
// algorithm 1).
type adam struct {
	w, m, v []float32
	grad    []float32 // of the batch at hand
	steps   int
}

const (
	beta1, beta2 = 0.9, 0.999
	tiny         = 1e-8
)

func newAdam(w []float32) *adam {
	n := len(w)
	return &adam{w: w, m: make([]float32, n), v: make([]float32, n), grad: make([]float32, n)}
}

// step goes against the gradient.
func (a *adam) step(rate float32) {
	a.steps++
	correction := math.Sqrt(1-math.Pow(beta2, float64(a.steps))) / (1 - math.Pow(beta1, float64(a.steps)))
	scale := rate * float32(correction)
	for i, g := range a.grad {
		a.m[i] = beta1*a.m[i] + (1-beta1)*g
		a.v[i] = beta2*a.v[i] + (1-beta2)*g*g
		a.w[i] -= scale * a.m[i] / (float32(math.Sqrt(float64(a.v[i]))) + tiny)
	}
}
