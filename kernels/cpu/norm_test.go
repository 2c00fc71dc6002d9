package cpu

import (
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

func TestLayerNorm(t *testing.T) {
	for _, n := range lengths {
		x, w, b := floats(1, n), floats(2, n), floats(3, n)
		for i := range x {
			x[i] += 5 // a mean that must go
		}
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, n)
			LayerNorm(got, x, w, b, 1e-5)
			near(t, "layer norm", got, ref.LayerNorm(x, w, b, 1e-5), 1e-5, 1e-5)
		})
	}
}

// From the far tail below zero to large values above it.
func TestGELU(t *testing.T) {
	var x []float32
	for v := float32(-12); v < 12; v += 0.0137 {
		x = append(x, v)
	}
	x = append(x, 0, 1e30)
	eachVariant(t, func(t *testing.T) {
		got := make([]float32, len(x))
		GELU(got, x)
		near(t, "gelu", got, ref.GELU(x), 1e-20, 6e-6)
		GELUTanh(got, x)
		near(t, "gelu by tanh", got, ref.GELUTanh(x), 1e-20, 3e-5)
	})
}
