package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// latentPages stores lines (P, W) and fills the free slots with NaN.
func latentPages(lines []float32, w int) [][]float32 {
	n := len(lines) / w
	all := make([][]float32, (n+PagePositions-1)/PagePositions)
	for p := range all {
		all[p] = slices.Repeat([]float32{float32(math.NaN())}, w*PagePositions)
	}
	for i := range n {
		StoreLatent(all[i/PagePositions], i%PagePositions, lines[i*w:(i+1)*w])
	}
	return all
}

func attendLatent(q []float32, l Latent, pages [][]float32, end int) []float32 {
	out := slices.Repeat([]float32{7}, l.Heads*l.Rank)
	scratch := slices.Repeat([]float32{float32(math.NaN())}, LatentScratch(l, end))
	AttendLatent(out, q, l, pages, end, 0.3, scratch)
	return out
}

func TestAttendLatent(t *testing.T) {
	for _, s := range []struct {
		Latent
		end int
	}{
		{Latent{1, 1, 0}, 1}, {Latent{4, 32, 8}, 31}, {Latent{16, 64, 16}, 32}, {Latent{3, 48, 8}, 33},
		{Latent{40, 33, 7}, 65}, {Latent{64, 96, 0}, 100}, {Latent{17, 128, 64}, 200},
	} {
		lines, q := floats(1, s.end*s.Width()), floats(2, s.Heads*s.Width())
		want := ref.AttendLatent(q, lines, s.Heads, s.Rank, s.Width(), 0.3)
		all := latentPages(lines, s.Width())
		t.Run(fmt.Sprintf("%dx%d+%d_%d", s.Heads, s.Rank, s.Rope, s.end), func(t *testing.T) {
			var first []float32
			eachVariant(t, func(t *testing.T) {
				got := attendLatent(q, s.Latent, all, s.end)
				near(t, "out", got, want, 1e-4, 1e-4)
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

// A head has the same bits alone and beside others, with later positions stored
// (prefill) or not (decode), and those of Attend over the lines as keys and values.
func TestAttendLatentInvariance(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			l := Latent{
				Heads: rapid.IntRange(1, 70).Draw(t, "heads"),
				Rank:  rapid.SampledFrom([]int{8, 16, 32, 40, 64}).Draw(t, "rank"), Rope: rapid.SampledFrom([]int{0, 4, 8}).Draw(t, "rope"),
			}
			total := rapid.IntRange(1, 90).Draw(t, "total")
			end := rapid.IntRange(1, total).Draw(t, "end")
			head := rapid.IntRange(0, l.Heads-1).Draw(t, "head")
			w := l.Width()
			lines, q := floats(1, total*w), floats(2, l.Heads*w)
			all := attendLatent(q, l, latentPages(lines, w), end)[head*l.Rank : (head+1)*l.Rank]
			one := q[head*w : (head+1)*w]
			alone := attendLatent(one, Latent{1, l.Rank, l.Rope}, latentPages(lines[:end*w], w), end)
			if !sameBits(all, alone) {
				t.Fatal("differs alone")
			}
			wide := attended(one, Heads{1, 1, w}, pages(lines, lines, 1, w), 0, end)
			if !sameBits(all, wide[:l.Rank]) {
				t.Fatal("differs from Attend")
			}
		})
	})
}

func TestLatentPanics(t *testing.T) {
	line := make([]float32, 4)
	for name, f := range map[string]func(){
		"slot":    func() { StoreLatent(make([]float32, 4*PagePositions), PagePositions, line) },
		"page":    func() { StoreLatent(make([]float32, 4*PagePositions-1), 0, line) },
		"scratch": func() { AttendLatent(line, line, Latent{1, 3, 1}, [][]float32{line}, 1, 1, nil) },
		"pages":   func() { AttendLatent(line, line, Latent{1, 3, 1}, nil, 1, 1, make([]float32, 9999)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
