package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// pages stores keys and values (P, C) and fills the free slots with NaN.
func pages(keys, values []float32, c int) (kb, vb [][]float32) {
	for p := range len(keys) / c {
		slot := p % PagePositions
		if slot == 0 {
			nan := slices.Repeat([]float32{float32(math.NaN())}, c*PagePositions)
			kb, vb = append(kb, nan), append(vb, slices.Clone(nan))
		}
		StoreKV(kb[len(kb)-1], vb[len(vb)-1], slot, keys[p*c:(p+1)*c], values[p*c:(p+1)*c])
	}
	return kb, vb
}

func attend(q []float32, g, c int, kb, vb [][]float32, start, end int) []float32 {
	out := slices.Repeat([]float32{7}, g*c)
	scratch := slices.Repeat([]float32{float32(math.NaN())}, AttendScratch(g, end))
	Attend(out, q, g, c, kb, vb, start, end, 0.3, scratch)
	return out
}

func TestAttend(t *testing.T) {
	for _, s := range []struct{ g, c, start, end int }{
		{1, 8, 0, 1}, {2, 16, 0, 31}, {4, 24, 0, 32}, {4, 32, 0, 33}, {1, 32, 5, 100}, {8, 64, 40, 70},
		{3, 128, 0, 65}, {16, 32, 64, 96}, {2, 80, 31, 64}, {13, 40, 1, 2}, {1, 3, 10, 90},
	} {
		keys, values, q := floats(1, s.end*s.c), floats(2, s.end*s.c), floats(3, s.g*s.c)
		want := ref.Attend(q, keys[s.start*s.c:], values[s.start*s.c:], s.g, s.c, 0.3)
		kb, vb := pages(keys, values, s.c)
		for p := range s.start / PagePositions {
			kb[p], vb[p] = nil, nil
		}
		t.Run(fmt.Sprintf("g%d_c%d_%d-%d", s.g, s.c, s.start, s.end), func(t *testing.T) {
			var first []float32
			eachVariant(t, func(t *testing.T) {
				got := attend(q, s.g, s.c, kb, vb, s.start, s.end)
				near(t, "out", got, want, 1e-5, 1e-5)
				if first == nil {
					first = got
				}
				if !sameBits(got, first) {
					t.Error("differs from generic")
				}
			})
		})
	}
}

// A head has the same bits alone and in a group, with later positions stored
// (prefill) or not (decode).
func TestAttendInvariance(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			g := rapid.IntRange(1, 9).Draw(t, "g")
			c := rapid.SampledFrom([]int{8, 16, 24, 32, 64}).Draw(t, "c")
			total := rapid.IntRange(1, 90).Draw(t, "total")
			end := rapid.IntRange(1, total).Draw(t, "end")
			start := rapid.IntRange(0, end-1).Draw(t, "start")
			h := rapid.IntRange(0, g-1).Draw(t, "head")
			keys, values, q := floats(1, total*c), floats(2, total*c), floats(3, g*c)
			kb, vb := pages(keys, values, c)
			group := attend(q, g, c, kb, vb, start, end)
			kb, vb = pages(keys[:end*c], values[:end*c], c)
			alone := attend(q[h*c:(h+1)*c], 1, c, kb, vb, start, end)
			if !sameBits(group[h*c:(h+1)*c], alone) {
				t.Fatal("differs")
			}
		})
	})
}
