package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Weights are softmax's, summed over all heads, and asking for them changes no bit.
func TestAttendWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		h          Heads
		start, end int
		sinks      bool
	}{{Heads{1, 1, 16}, 0, 1, false}, {Heads{2, 3, 16}, 0, 70, false}, {Heads{6, 2, 24}, 37, 97, true}} {
		h := tc.h
		pages := make([][]float32, (tc.end+PagePositions-1)/PagePositions)
		for p := range pages {
			pages[p] = make([]float32, 2*h.KV*h.Dim*PagePositions)
		}
		random := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		}
		keys := make([][]float32, tc.end)
		for p := range tc.end {
			keys[p] = random(h.KV * h.Dim)
			for head := range h.KV {
				block := pages[p/PagePositions][2*head*h.Dim*PagePositions:]
				StoreKV(block[:h.Dim*PagePositions], block[h.Dim*PagePositions:][:h.Dim*PagePositions], p%PagePositions, keys[p][head*h.Dim:(head+1)*h.Dim], random(h.Dim))
			}
		}
		q, heads := random(h.KV*h.Group*h.Dim), h.KV*h.Group
		var sinks []float32
		if tc.sinks {
			sinks = random(heads)
		}
		plain, out, got := make([]float32, len(q)), make([]float32, len(q)), random(tc.end)
		scratch := make([]float32, AttendScratch(h, tc.end))
		attendSinks(plain, q, h, pages, tc.start, tc.end, 0.3, sinks, scratch)
		attendWeights(got, out, q, h, pages, tc.start, tc.end, 0.3, sinks, scratch)
		if !slices.Equal(plain, out) {
			t.Errorf("%+v: other bits", tc)
		}
		want := make([]float64, tc.end)
		for head := range heads {
			row, sum := make([]float64, tc.end), 0.0
			if tc.sinks {
				sum = math.Exp(float64(sinks[head]))
			}
			for p := tc.start; p < tc.end; p++ {
				for i := range h.Dim {
					row[p] += float64(q[head*h.Dim+i]) * float64(keys[p][head/h.Group*h.Dim+i])
				}
				row[p] = math.Exp(row[p] * 0.3)
				sum += row[p]
			}
			for p := tc.start; p < tc.end; p++ {
				want[p] += row[p] / sum
			}
		}
		for p := range want {
			if math.Abs(want[p]-float64(got[p])) > 1e-4 {
				t.Fatalf("%+v: position %d counts %v, want %v", tc, p, got[p], want[p])
			}
		}
	}
}
