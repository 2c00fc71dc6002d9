package cpu

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

var lengths = []int{1, 7, 15, 16, 17, 48, 100, 256, 1000}

func TestRMSNorm(t *testing.T) {
	for _, n := range lengths {
		x, w := floats(1, n), floats(2, n)
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, n)
			RMSNorm(got, x, w, 1e-6)
			near(t, "norm", got, ref.RMSNorm(x, w, 1e-6), 1e-6, 1e-5)
		})
	}
}

func TestSwiGLU(t *testing.T) {
	for _, n := range lengths {
		g, u := floats(1, n), floats(2, n)
		Scale(g, 8)
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, n)
			SwiGLU(got, g, u)
			near(t, "swiglu", got, ref.SwiGLU(g, u), 1e-6, 1e-5)
		})
	}
}

func TestClampedSwiGLU(t *testing.T) {
	for _, n := range lengths {
		g, u := floats(1, n), floats(2, n)
		Scale(g, 8)
		Scale(u, 8)
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, n)
			ClampedSwiGLU(got, g, u, 7)
			near(t, "clamped swiglu", got, ref.ClampedSwiGLU(g, u, 7), 1e-6, 1e-5)
		})
	}
}

func TestSoftmax(t *testing.T) {
	for _, n := range lengths {
		x, want := floats(3, n), make([]float32, n)
		wide := make([]float64, n)
		for i, v := range x {
			wide[i] = float64(v)
		}
		for i, v := range ref.Softmax(wide) {
			want[i] = float32(v)
		}
		eachVariant(t, func(t *testing.T) {
			got := slices.Clone(x)
			Softmax(got)
			near(t, "softmax", got, want, 1e-7, 1e-5)
		})
	}
}

func TestRoPE(t *testing.T) {
	x, angles := floats(1, 24), floats(2, 12)
	cos, sin := make([]float32, 12), make([]float32, 12)
	for i, a := range angles {
		s, c := math.Sincos(float64(a))
		cos[i], sin[i] = float32(c), float32(s)
	}
	halves, pairs := slices.Clone(x), slices.Clone(x)
	RoPE(halves, cos, sin)
	near(t, "halves", halves, ref.Rotate(x, angles), 1e-6, 1e-6)
	RoPEPairs(pairs, cos, sin)
	near(t, "pairs", pairs, ref.RotatePairs(x, angles), 1e-6, 1e-6)
}

// Argmax is what a loop over all values finds, of each variant.
func TestArgmax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		value := rapid.OneOf(rapid.Float32Range(-3, 3), rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), 2, -inf, inf, nan}))
		few := rapid.SampledFrom([]float32{-inf, nan, 1}) // of which many are equal
		n := rapid.IntRange(0, 3*argmaxBlock).Draw(t, "n")
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Inf(-1))
		}
		for range min(n, 40) {
			x[rapid.IntRange(0, n-1).Draw(t, "at")] = rapid.OneOf(value, few).Draw(t, "value")
		}
		want := 0
		for i, v := range x {
			if v > x[want] {
				want = i
			}
		}
		for _, name := range Available() {
			restore, _ := Use(name)
			got := Argmax(x)
			restore()
			if got != want {
				t.Fatalf("%s: %d, want %d", name, got, want)
			}
		}
	})
}

func TestTopK(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		x    []float32
		want []int32
	}{
		"ties":  {[]float32{1, 3, 3, 2, 3}, []int32{1, 2, 4}},
		"down":  {[]float32{5, 4, 3, 2}, []int32{0, 1, 2}},
		"up":    {[]float32{1, 2, 3, 4}, []int32{3, 2, 1}},
		"nan":   {[]float32{nan, 1, nan, 2}, []int32{3, 1, 0}},
		"exact": {[]float32{1, 2, 0}, []int32{1, 0, 2}},
		"none":  {[]float32{1}, nil},
	} {
		ids, vals := make([]int32, len(c.want)), make([]float32, len(c.want))
		TopK(ids, vals, c.x)
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", name, ids, c.want)
		}
		for i, id := range ids {
			if v := c.x[id]; v != vals[i] && v == v {
				t.Errorf("%s: value %v of index %d", name, vals[i], id)
			}
		}
	}
}

func TestExp(t *testing.T) {
	for x := float32(-87.3); x < 88; x += 0.0137 {
		if want := math.Exp(float64(x)); math.Abs(float64(exp32(x))/want-1) > 3e-7 {
			t.Fatalf("exp(%v) = %v, want %v", x, exp32(x), want)
		}
	}
	if inf := float32(math.Inf(1)); exp32(-inf) != 0 || exp32(inf) < 1e38 || exp32(0) != 1 {
		t.Error("the ends of exp")
	}
}

// fma32 against arithmetic of 400 bits, over all exponents.
func TestFMA(t *testing.T) {
	wide := func(x float32) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(float64(x)) }
	check := func(t *rapid.T, a, b, c float32) {
		sum := wide(0).Mul(wide(a), wide(b))
		want, _ := sum.Add(sum, wide(c)).Float32()
		if got := fma32(a, b, c); got != want {
			t.Fatalf("fma(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Float32()
		check(t, all.Draw(t, "a"), all.Draw(t, "b"), all.Draw(t, "c"))
		// Few bits far apart land on ties often.
		few := rapid.Custom(func(t *rapid.T) float32 {
			return float32(math.Ldexp(float64(rapid.IntRange(-4097, 4097).Draw(t, "m")), rapid.IntRange(-80, 20).Draw(t, "e")))
		})
		check(t, few.Draw(t, "a"), few.Draw(t, "b"), few.Draw(t, "c"))
	})
}

// Every variant gives generic's bits, on ordinary and on odd values.
func TestVariantsShareBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 130).Draw(t, "n")
		vector := func(label string) []float32 {
			odd := rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), 1e-40, -3e38, 88.5, -87.4, -100, float32(math.Inf(1))})
			value := rapid.OneOf(rapid.Float32Range(-20, 20), rapid.Float32Range(-20, 20), rapid.Float32(), odd)
			return rapid.SliceOfN(value, n, n).Draw(t, label)
		}
		x, y := vector("x"), vector("y")
		var want map[string][]float32
		for _, name := range Available() {
			restore, _ := Use(name)
			got := vectorKernels(x, y)
			restore()
			if want == nil {
				want = got
			}
			for kernel := range want {
				if !sameBits(got[kernel], want[kernel]) {
					t.Fatalf("%s: %s gives %v, generic %v", kernel, name, got[kernel], want[kernel])
				}
			}
		}
	})
}

// vectorKernels runs every kernel on vectors.
func vectorKernels(x, y []float32) map[string][]float32 {
	out := map[string][]float32{}
	run := func(name string, f func(dst []float32)) {
		out[name] = slices.Clone(x)
		f(out[name])
	}
	run("norm", func(d []float32) { RMSNorm(d, x, y, 1e-5) })
	run("swiglu", func(d []float32) { SwiGLU(d, x, y) })
	run("clamped swiglu", func(d []float32) { ClampedSwiGLU(d, x, y, 7) })
	run("softmax", func(d []float32) { Softmax(d) })
	run("add", func(d []float32) { Add(d, y) })
	run("scale", func(d []float32) { Scale(d, 1.1) })
	run("layer norm", func(d []float32) { LayerNorm(d, x, y, x, 1e-5) })
	run("gelu", func(d []float32) { GELU(d, x) })
	run("gelu by tanh", func(d []float32) { GELUTanh(d, x) })
	run("rope", func(d []float32) { RoPE(d, y, x) })
	run("bf16", func(d []float32) { RoundBF16(d) })
	return out
}

func TestBF16(t *testing.T) {
	for _, c := range []struct{ in, want uint32 }{
		{0x3f800000, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f818000, 0x3f820000}, {0x3f808001, 0x3f810000},
		{0x7f7fffff, 0x7f800000}, {0x7f800001, 0x7fc00000}, {0xff800000, 0xff800000}, {0x00000001, 0},
		{0x80000000, 0x80000000}, {0xffffffff, 0xffff0000},
	} {
		eachVariant(t, func(t *testing.T) {
			x := slices.Repeat([]float32{math.Float32frombits(c.in)}, 40)
			RoundBF16(x)
			for i := range x {
				if got := math.Float32bits(x[i]); got != c.want {
					t.Fatalf("[%d] %#x becomes %#x, want %#x", i, c.in, got, c.want)
				}
			}
		})
	}
}
