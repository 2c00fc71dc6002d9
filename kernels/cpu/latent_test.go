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
func latentPages(l Latent, lines []float32) [][]float32 {
	w := l.Width()
	n := len(lines) / w
	all := make([][]float32, (n+PagePositions-1)/PagePositions)
	for p := range all {
		all[p] = slices.Repeat([]float32{float32(math.NaN())}, l.Words())
	}
	for i := range n {
		l.Store(all[i/PagePositions], i%PagePositions, lines[i*w:(i+1)*w])
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
		{Latent{1, 1, 0, KVF32}, 1}, {Latent{4, 32, 8, KVF32}, 31}, {Latent{16, 64, 16, KVF32}, 32}, {Latent{3, 48, 8, KVF32}, 33},
		{Latent{40, 33, 7, KVF32}, 65}, {Latent{64, 96, 0, KVF32}, 100}, {Latent{17, 128, 64, KVF32}, 200},
	} {
		lines, q := floats(1, s.end*s.Width()), floats(2, s.Heads*s.Width())
		want := ref.AttendLatent(q, lines, s.Heads, s.Rank, s.Width(), 0.3)
		all := latentPages(s.Latent, lines)
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
			all := attendLatent(q, l, latentPages(l, lines), end)[head*l.Rank : (head+1)*l.Rank]
			one := q[head*w : (head+1)*w]
			alone := attendLatent(one, Latent{1, l.Rank, l.Rope, KVF32}, latentPages(l, lines[:end*w]), end)
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

// keptLine is what a format keeps of a line.
func keptLine(l Latent, line []float32) []float32 {
	kept := slices.Clone(line)
	if l.Format == KVBF16 {
		RoundBF16(kept)
		return kept
	}
	for _, part := range [][]float32{kept[:l.Rank], kept[l.Rank:]} {
		top := float32(0)
		for _, v := range part {
			top = max(top, v, -v)
		}
		for i, v := range part {
			if top == 0 {
				break
			}
			part[i] = float32(math.RoundToEven(float64(v*(127/top)))) * (top / 127)
		}
	}
	return kept
}

// Lines in fewer bits have the bits of float32 lines that have the numbers that are kept of them.
func TestAttendLatentKept(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			l := Latent{
				Heads: rapid.IntRange(1, 40).Draw(t, "heads"), Rank: rapid.SampledFrom([]int{32, 64, 96}).Draw(t, "rank"),
				Rope: rapid.SampledFrom([]int{0, 4, 8, 32, 36}).Draw(t, "rope"), Format: rapid.SampledFrom([]KVFormat{KVBF16, KVInt8}).Draw(t, "format"),
			}
			end, w := rapid.IntRange(1, 90).Draw(t, "end"), l.Width()
			lines, q := floats(1, end*w), floats(2, l.Heads*w)
			if rapid.Bool().Draw(t, "a line of zeros") {
				clear(lines[:w])
			}
			got := attendLatent(q, l, latentPages(l, lines), end)
			for i := range end {
				copy(lines[i*w:], keptLine(l, lines[i*w:(i+1)*w]))
			}
			l.Format = KVF32
			if want := attendLatent(q, l, latentPages(l, lines), end); !sameBits(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
		})
	})
}

func TestLatentPanics(t *testing.T) {
	line := make([]float32, 4)
	for name, f := range map[string]func(){
		"slot":    func() { Latent{1, 3, 1, KVF32}.Store(make([]float32, 4*PagePositions), PagePositions, line) },
		"page":    func() { Latent{1, 3, 1, KVF32}.Store(make([]float32, 4*PagePositions-1), 0, line) },
		"rank":    func() { Latent{1, 3, 1, KVInt8}.Store(make([]float32, 4*PagePositions), 0, line) },
		"scratch": func() { AttendLatent(line, line, Latent{1, 3, 1, KVF32}, [][]float32{line}, 1, 1, nil) },
		"pages":   func() { AttendLatent(line, line, Latent{1, 3, 1, KVF32}, nil, 1, 1, make([]float32, 9999)) },
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
