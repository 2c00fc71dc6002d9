package predict

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPredict is one layer's prediction, with the demo model's sizes: what a
// predictor takes beside a step.
func BenchmarkPredict(b *testing.B) {
	const width = 128
	r := rand.New(rand.NewPCG(1, 1))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	g := Gates{Hidden: 256, Experts: 16, TopK: 2}
	g.Layers = [][]float32{normal(16 * 256), normal(16 * 256)}
	adapter := &Network{width, normal(width * (256 + 16)), normal(width), normal(16 * width), normal(16)}
	reused, err := Reused(g, 1)
	check(b, err)
	adapted, err := LayerAware(g, 1, map[int]Tuned{1: {g.Layers[1], adapter}})
	check(b, err)
	for name, p := range map[string]Predictor{"gate": reused, "adapter": adapted} {
		for _, rows := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("method=%s/rows=%d", name, rows), func(b *testing.B) {
				x, load := normal(rows*256), make([]float64, 16)
				for b.Loop() {
					p.Predict(0, x, rows, load)
				}
			})
		}
	}
}
