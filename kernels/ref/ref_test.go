package ref

import (
	"math"
	"slices"
	"testing"
)

// The oracle itself is held to values that a reader can check by hand.
func TestByHand(t *testing.T) {
	ln3 := float32(math.Log(3))
	for name, c := range map[string]struct{ got, want []float32 }{
		"matmul":  {MatMul([]float32{1, 2, 3, 4}, []float32{1, 0, 0, 1, 1, 1}, 2, 3, 2), []float32{1, 2, 3, 3, 4, 7}},
		"norm":    {RMSNorm([]float32{3, 4, 0, 0}, []float32{1, 2, 1, 1}, 0), []float32{1.2, 3.2, 0, 0}},
		"swiglu":  {SwiGLU([]float32{0, ln3}, []float32{5, 2}), []float32{0, 1.5 * ln3}},
		"rotate":  {Rotate([]float32{1, 2, 3, 4}, []float32{math.Pi / 2, 0}), []float32{-3, 2, 1, 4}},
		"attend":  {Attend([]float32{1, 0}, []float32{0, 9, ln3, 9}, []float32{4, 8, 0, 4}, 1, 2, 1), []float32{1, 5}},
		"layer":   {LayerNorm([]float32{1, 3}, []float32{1, 2}, []float32{5, 7}, 0), []float32{4, 9}},
		"gelu":    {GELU([]float32{0, 1}), []float32{0, 0.8413447}},
		"tanh":    {GELUTanh([]float32{0, 1}), []float32{0, 0.8411920}},
		"uniform": {Attend([]float32{0}, []float32{1, 2}, []float32{2, 4}, 1, 1, 1), []float32{3}},
	} {
		near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }
		if !slices.EqualFunc(c.got, c.want, near) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
