package sampling

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// What is drawn by bands is what is drawn when all candidates are in order.
func TestNucleus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.Float32Range(0, 40).Draw(t, "spread")
		unit := rapid.Custom(func(t *rapid.T) float32 { return float32(rapid.IntRange(0, 50).Draw(t, "v")) / 50 }) // with ties
		logits := rapid.SliceOfN(unit, 1, 300).Draw(t, "logits")
		for i := range logits {
			logits[i] *= spread
		}
		p := Params{Temperature: 1, TopP: rapid.Float32Range(0.001, 0.999).Draw(t, "top_p"), Seed: rapid.Uint32().Draw(t, "seed"), Logprobs: -1}
		if got, want := new(Sampler).Next(logits, p, nil, 3).ID, drawnInOrder(logits, p, 3); got != want {
			t.Fatalf("drew %d, want %d", got, want)
		}
	})
}

// drawnInOrder puts all candidates in order first.
func drawnInOrder(logits []float32, p Params, index int) uint32 {
	s := Sampler{probs: slices.Clone(logits)}
	for i := range logits {
		s.order = append(s.order, int32(i))
	}
	slices.SortStableFunc(s.order, func(a, b int32) int {
		if logits[a] > logits[b] {
			return -1
		}
		if logits[a] < logits[b] {
			return 1
		}
		return 0
	})
	cpu.Scale(s.probs, 1/p.Temperature)
	cpu.Softmax(s.probs)
	return s.drawRanked(p, Uniform(p.Seed, index))
}

// Bands hold no more than the nucleus needs, about.
func TestBands(t *testing.T) {
	flat := make([]float32, 10_000)
	for i := range flat {
		flat[i] = 20 * float32(math.Sin(float64(i)))
	}
	s := Sampler{probs: slices.Clone(flat)}
	if s.rank(Params{TopP: 0.5}); len(s.order) == 0 || len(s.order) > len(flat)/5 {
		t.Errorf("%d of %d candidates were put in order", len(s.order), len(flat))
	}
}
