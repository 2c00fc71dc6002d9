package cpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// formatFor draws a format that takes heads of so many dimensions.
func formatFor(t *rapid.T, dim int) KVFormat {
	return rapid.SampledFrom([]KVFormat{KVF32, KVBF16, KVInt8}).Filter(func(f KVFormat) bool { return f.Takes(dim) }).Draw(t, "format")
}

// A code is the nearest of 255 steps, and no vector is lost.
func TestEncode(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name  string
		x     []float64
		codes []int8
		scale float64
	}{
		{"zeros", []float64{0, 0}, []int8{0, 0}, 0},
		{"the largest is 127", []float64{-254, 127, 63.5}, []int8{-127, 64, 32}, 2},
		{"ties go to the even code", []float64{127, 0.5, 1.5, -2.5}, []int8{127, 0, 2, -2}, 1},
		{"too small", []float64{1e-31, -1e-31}, []int8{0, 0}, 0},
		{"small", []float64{0x1p-99, 0}, []int8{127, 0}, 0x1p-99 / 127},
		{"large", []float64{math.MaxFloat32, -math.MaxFloat32}, []int8{127, -127}, math.MaxFloat32 / 127},
		{"not a number", []float64{1, nan}, []int8{0, 0}, nan},
		{"infinite", []float64{-inf, 1}, []int8{0, 0}, nan},
	} {
		x, dst := make([]float32, len(tt.x)), make([]byte, 3*len(tt.x))
		for i, v := range tt.x {
			x[i] = float32(v)
		}
		if got := encode(dst, 3, x); got != float32(tt.scale) && (got == got || tt.scale == tt.scale) {
			t.Errorf("%s: scale %v, want %v", tt.name, got, tt.scale)
		}
		for i, want := range tt.codes {
			if got := int8(dst[3*i]); got != want {
				t.Errorf("%s: code %d of %v, want %d", tt.name, got, x[i], want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32Range(-1e6, 1e6), 1, 130).Draw(t, "x")
		dst := make([]byte, len(x))
		scale := encode(dst, 1, x)
		for i, v := range x {
			if off := math.Abs(float64(v) - float64(int8(dst[i]))*float64(scale)); off > float64(scale)*0.50001 && off > smallestRow {
				t.Fatalf("%v is %d times %v", v, int8(dst[i]), scale)
			}
		}
	})
}

// Pages of codes give what float64 makes of codes times scales, with the same bits in each variant,
// and come near what no rounding gives.
func TestAttendCodes(t *testing.T) {
	for _, s := range []struct {
		Heads
		start, end int
	}{
		{Heads{1, 1, 32}, 0, 1}, {Heads{4, 2, 32}, 0, 200}, {Heads{8, 4, 128}, 40, 70}, {Heads{7, 3, 64}, 0, 65},
		{Heads{2, 16, 64}, 64, 96}, {Heads{5, 1, 96}, 31, 64}, {Heads{3, 7, 32}, 1, 2}, {Heads{1, 11, 64}, 5, 100},
	} {
		size := s.KV * s.end * s.Dim
		keys, values, q := floats(1, size), floats(2, size), floats(3, s.KV*s.Group*s.Dim)
		all := pagesIn(KVInt8, keys, values, s.KV, s.Dim)
		exact := wantAttend(q, keys, values, s.Heads, s.start)
		decode(keys, s.Dim)
		decode(values, s.Dim)
		want := wantAttend(q, keys, values, s.Heads, s.start)
		var first []float32
		eachVariant(t, func(t *testing.T) {
			got := attendedIn(KVInt8, q, s.Heads, all, s.start, s.end)
			near(t, "out", got, want, 1e-5, 1e-5)
			if lost := apart(got, exact); lost > 0.03 {
				t.Errorf("%+v: %v of what no rounding gives is lost", s, lost)
			}
			if first == nil {
				first = got
			}
			if !sameBits(got, first) {
				t.Errorf("%+v: differs from generic", s)
			}
		})
	}
}

// decode rounds vectors of c numbers to codes and back.
func decode(x []float32, c int) {
	codes := make([]byte, c)
	for ; len(x) > 0; x = x[c:] {
		scale := encode(codes, 1, x[:c])
		for i, code := range codes {
			x[i] = float32(int8(code)) * scale
		}
	}
}

// apart is the root of the sum of squared differences over that of squares of want.
func apart(got, want []float32) float64 {
	lost, all := 0.0, 0.0
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		lost, all = lost+d*d, all+float64(w)*float64(w)
	}
	return math.Sqrt(lost / all)
}

// What a page has that nobody may see changes nothing, and a position that is no number is not hidden.
func TestCodesThatAreNoNumbers(t *testing.T) {
	h := Heads{KV: 2, Group: 2, Dim: 32}
	keys, values, q := floats(1, 2*40*32), floats(2, 2*40*32), floats(3, 4*32)
	keys[39*32+3] = float32(math.NaN()) // of head 0, the last position
	all := pagesIn(KVInt8, keys, values, h.KV, h.Dim)
	eachVariant(t, func(t *testing.T) {
		before, with := attendedIn(KVInt8, q, h, all, 0, 39), attendedIn(KVInt8, q, h, all, 0, 40)
		for i := range before {
			if b, w := before[i], with[i]; b != b || (w != w) != (i < 2*h.Dim) {
				t.Fatalf("output %d is %v without the position, %v with it", i, b, w)
			}
		}
	})
}

// Weights are told as of other pages.
func TestWeightsOfCodes(t *testing.T) {
	h := Heads{KV: 2, Group: 3, Dim: 64}
	const end = 70
	keys, values, q := floats(1, 2*end*64), floats(2, 2*end*64), floats(3, 6*64)
	all := pagesIn(KVInt8, keys, values, h.KV, h.Dim)
	decode(keys, h.Dim)
	decode(values, h.Dim)
	scratch := make([]float32, AttendScratch(h, end))
	eachVariant(t, func(t *testing.T) {
		got, want, out := make([]float32, end), make([]float32, end), make([]float32, len(q))
		AttendKept(KVInt8, got, out, q, h, all, 0, end, 0.3, nil, scratch)
		attendWeights(want, out, q, h, pages(keys, values, h.KV, h.Dim), 0, end, 0.3, nil, scratch)
		near(t, "weights", got, want, 1e-5, 1e-5)
	})
}

// A sink takes part as of other pages.
func TestSinksOfCodes(t *testing.T) {
	h := Heads{KV: 2, Group: 2, Dim: 32}
	const end = 40
	keys, values, q, sinks := floats(1, 2*end*32), floats(2, 2*end*32), floats(3, 4*32), floats(4, 4)
	all := pagesIn(KVInt8, keys, values, h.KV, h.Dim)
	decode(keys, h.Dim)
	decode(values, h.Dim)
	var want []float32
	for i := range h.KV {
		k, v := keys[i*end*32:(i+1)*end*32], values[i*end*32:(i+1)*end*32]
		want = append(want, ref.AttendSinks(q[i*2*32:], k, v, sinks[i*2:], 2, 32, 0.3)...)
	}
	eachVariant(t, func(t *testing.T) {
		got := make([]float32, len(q))
		AttendKept(KVInt8, nil, got, q, h, all, 0, end, 0.3, sinks, make([]float32, AttendScratch(h, end)))
		near(t, "out", got, want, 1e-5, 1e-5)
	})
}

func TestFormats(t *testing.T) {
	for f, want := range map[KVFormat][2]int{KVF32: {2048, 1}, KVBF16: {1024, 0}, KVInt8: {544, 0}} {
		if got := f.Words(64); got != want[0] {
			t.Errorf("format %d: %d words, want %d", f, got, want[0])
		}
		if f.Takes(40) != (want[1] == 1) || !f.Takes(64) {
			t.Errorf("format %d takes heads of 40: %v, of 64: %v", f, f.Takes(40), f.Takes(64))
		}
	}
}
