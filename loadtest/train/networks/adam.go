package networks

import (
	"math"
	"slices"
)

// Adam are weights with the moments of their gradients (Kingma and Ba 2015,
// algorithm 1).
type Adam struct {
	W     []float32
	m, v  []float32
	Grad  []float32 // of the batch at hand
	steps int
}

const (
	beta1, beta2 = 0.9, 0.999
	tiny         = 1e-8
)

// NewAdam begins with weights, which it changes.
func NewAdam(w []float32) *Adam {
	n := len(w)
	return &Adam{W: w, m: make([]float32, n), v: make([]float32, n), Grad: make([]float32, n)}
}

// Step goes against the gradient.
func (a *Adam) Step(rate float32) {
	a.steps++
	correction := math.Sqrt(1-math.Pow(beta2, float64(a.steps))) / (1 - math.Pow(beta1, float64(a.steps)))
	scale := rate * float32(correction)
	for i, g := range a.Grad {
		a.m[i] = beta1*a.m[i] + (1-beta1)*g
		a.v[i] = beta2*a.v[i] + (1-beta2)*g*g
		a.W[i] -= scale * a.m[i] / (float32(math.Sqrt(float64(a.v[i]))) + tiny)
	}
}

// State is the weights and both moments, one behind the other, and the steps so far.
func (a *Adam) State() ([]float32, int) { return slices.Concat(a.W, a.m, a.v), a.steps }

// Restore goes on from what State was, of as many weights.
func (a *Adam) Restore(state []float32, steps int) {
	n := len(a.W)
	copy(a.W, state[:n])
	copy(a.m, state[n:2*n])
	copy(a.v, state[2*n:])
	a.steps = steps
}
