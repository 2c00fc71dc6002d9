package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// pages stores keys and values (KV, P, C) and fills the free slots with NaN.
func pages(keys, values []float32, kv, c int) [][]float32 { return pagesIn(KVF32, keys, values, kv, c) }

// pagesIn is pages in a format; what is free has all its bits set.
func pagesIn(f KVFormat, keys, values []float32, kv, c int) [][]float32 {
	size, length := f.Words(c), len(keys)/kv/c
	all := make([][]float32, (length+PagePositions-1)/PagePositions)
	for p := range all {
		all[p] = slices.Repeat([]float32{math.Float32frombits(0xffffffff)}, 2*kv*size)
	}
	for i := range kv * length {
		block := all[i%length/PagePositions][i/length*2*size:]
		f.Store(block[:size], block[size:], i%length%PagePositions, keys[i*c:(i+1)*c], values[i*c:(i+1)*c])
	}
	return all
}

func attended(q []float32, h Heads, pages [][]float32, start, end int) []float32 {
	return attendedIn(KVF32, q, h, pages, start, end)
}

func attendedIn(f KVFormat, q []float32, h Heads, pages [][]float32, start, end int) []float32 {
	out := slices.Repeat([]float32{7}, h.KV*h.Group*h.Dim)
	scratch := slices.Repeat([]float32{float32(math.NaN())}, AttendScratch(h, end))
	AttendKept(f, nil, out, q, h, pages, start, end, 0.3, nil, scratch)
	return out
}

// wantAttend computes attention head by head.
func wantAttend(q, keys, values []float32, h Heads, start int) (want []float32) {
	group, length := h.Group*h.Dim, len(keys)/h.KV
	for i := range h.KV {
		k, v := keys[i*length:(i+1)*length], values[i*length:(i+1)*length]
		one := ref.Attend(q[i*group:(i+1)*group], k[start*h.Dim:], v[start*h.Dim:], h.Group, h.Dim, 0.3)
		want = append(want, one...)
	}
	return want
}

// A sink takes its share of the softmax; without sinks nothing changes.
func TestAttendSinks(t *testing.T) {
	for _, s := range []struct {
		Heads
		start, end int
	}{{Heads{1, 1, 8}, 0, 1}, {Heads{2, 8, 64}, 40, 70}, {Heads{5, 2, 80}, 31, 64}, {Heads{6, 3, 64}, 33, 63}} {
		size, heads := s.KV*s.end*s.Dim, s.KV*s.Group
		keys, values, q, sinks := floats(1, size), floats(2, size), floats(3, heads*s.Dim), floats(4, heads)
		Scale(sinks, 3)
		var want []float32
		for i := range s.KV {
			k, v := keys[(i*s.end+s.start)*s.Dim:(i+1)*s.end*s.Dim], values[(i*s.end+s.start)*s.Dim:(i+1)*s.end*s.Dim]
			want = append(want, ref.AttendSinks(q[i*s.Group*s.Dim:], k, v, sinks[i*s.Group:], s.Group, s.Dim, 0.3)...)
		}
		all, scratch := pages(keys, values, s.KV, s.Dim), make([]float32, AttendScratch(s.Heads, s.end))
		var bits []float32
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, heads*s.Dim)
			attendSinks(got, q, s.Heads, all, s.start, s.end, 0.3, sinks, scratch)
			near(t, "out", got, want, 1e-5, 1e-5)
			if bits == nil {
				bits = got
			}
			if !sameBits(got, bits) {
				t.Error("differs from the first variant")
			}
		})
	}
}

func TestAttend(t *testing.T) {
	for _, s := range []struct {
		Heads
		start, end int
	}{
		{Heads{1, 1, 8}, 0, 1}, {Heads{1, 2, 16}, 0, 31}, {Heads{2, 4, 24}, 0, 32}, {Heads{1, 4, 32}, 0, 33},
		{Heads{3, 1, 32}, 5, 100}, {Heads{2, 8, 64}, 40, 70}, {Heads{7, 3, 128}, 0, 65}, {Heads{1, 16, 32}, 64, 96},
		{Heads{5, 2, 80}, 31, 64}, {Heads{1, 13, 40}, 1, 2}, {Heads{4, 1, 3}, 10, 90}, {Heads{4, 2, 32}, 0, 200},
		{Heads{6, 3, 64}, 33, 63},
	} {
		size := s.KV * s.end * s.Dim
		keys, values, q := floats(1, size), floats(2, size), floats(3, s.KV*s.Group*s.Dim)
		want := wantAttend(q, keys, values, s.Heads, s.start)
		all := pages(keys, values, s.KV, s.Dim)
		clear(all[:s.start/PagePositions])
		t.Run(fmt.Sprintf("%dx%dx%d_%d-%d", s.KV, s.Group, s.Dim, s.start, s.end), func(t *testing.T) {
			var first []float32
			eachVariant(t, func(t *testing.T) {
				got := attended(q, s.Heads, all, s.start, s.end)
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

// A query head has the same bits alone and beside others of its KV head and of
// other KV heads, with later positions stored (prefill) or not (decode).
func TestAttendInvariance(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := Heads{
				KV: rapid.IntRange(1, 9).Draw(t, "kv"), Group: rapid.IntRange(1, 9).Draw(t, "group"),
				Dim: rapid.SampledFrom([]int{8, 16, 24, 32, 64}).Draw(t, "dim"),
			}
			f := formatFor(t, h.Dim)
			total := rapid.IntRange(1, 90).Draw(t, "total")
			end := rapid.IntRange(1, total).Draw(t, "end")
			start := rapid.IntRange(0, end-1).Draw(t, "start")
			head := rapid.IntRange(0, h.KV*h.Group-1).Draw(t, "head")
			c, at := h.Dim, head/h.Group*total*h.Dim
			keys, values, q := floats(1, h.KV*total*c), floats(2, h.KV*total*c), floats(3, h.KV*h.Group*c)
			all := attendedIn(f, q, h, pagesIn(f, keys, values, h.KV, c), start, end)
			short := pagesIn(f, keys[at:at+end*c], values[at:at+end*c], 1, c)
			alone := attendedIn(f, q[head*c:(head+1)*c], Heads{1, 1, c}, short, start, end)
			if !sameBits(all[head*c:(head+1)*c], alone) {
				t.Fatal("differs")
			}
		})
	})
}

// Whole pages before the first position that is seen change no bit, so that callers
// may leave them out.
func TestAttendLeavesPagesOut(t *testing.T) {
	h := Heads{KV: 2, Group: 2, Dim: 40}
	width, page := h.KV*h.Group*h.Dim, h.KV*2*h.Dim*PagePositions
	pages := make([][]float32, 5)
	for i := range pages {
		pages[i] = floats(uint64(i), page)
	}
	q, all, some := floats(9, width), make([]float32, width), make([]float32, width)
	const start, end, before = 70, 150, 2
	attend(all, q, h, pages, start, end, 0.3, make([]float32, AttendScratch(h, end)))
	from, to := start-before*PagePositions, end-before*PagePositions
	attend(some, q, h, pages[before:], from, to, 0.3, make([]float32, AttendScratch(h, to)))
	if !sameBits(all, some) {
		t.Error("the bits differ")
	}
}

// Pages of bf16 give the bits of keys and values that are rounded before, with any page bounds.
func TestAttendHalf(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := Heads{rapid.IntRange(1, 6).Draw(t, "kv"), rapid.IntRange(1, 5).Draw(t, "group"), PanelWidth * rapid.IntRange(1, 3).Draw(t, "dim")}
			end := rapid.IntRange(1, 100).Draw(t, "end")
			start := rapid.IntRange(0, end-1).Draw(t, "start")
			size := h.KV * end * h.Dim
			keys, values, q := floats(1, size), floats(2, size), floats(3, h.KV*h.Group*h.Dim)
			half := pagesIn(KVBF16, keys, values, h.KV, h.Dim)
			RoundBF16(keys)
			RoundBF16(values)
			want := attended(q, h, pages(keys, values, h.KV, h.Dim), start, end)
			weights, out := make([]float32, end), make([]float32, len(q))
			AttendKept(KVBF16, weights, out, q, h, half, start, end, 0.3, nil, make([]float32, AttendScratch(h, end)))
			if !sameBits(out, want) {
				t.Fatalf("%+v, positions %d to %d: other bits", h, start, end)
			}
		})
	})
}

// attend is AttendKept of the widest pages, without sinks or weights.
func attend(out, q []float32, h Heads, pages [][]float32, start, end int, scale float32, scratch []float32) {
	attendSinks(out, q, h, pages, start, end, scale, nil, scratch)
}

func attendSinks(out, q []float32, h Heads, pages [][]float32, start, end int, scale float32, sinks, scratch []float32) {
	attendWeights(nil, out, q, h, pages, start, end, scale, sinks, scratch)
}

func attendWeights(weights, out, q []float32, h Heads, pages [][]float32, start, end int, scale float32, sinks, scratch []float32) {
	AttendKept(KVF32, weights, out, q, h, pages, start, end, scale, sinks, scratch)
}
