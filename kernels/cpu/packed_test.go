package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

func randomBytes(seed uint64, n, below int) []byte {
	r := rand.New(rand.NewPCG(seed, 11))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(below))
	}
	return b
}

// mxMatrix is a random matrix and its weights by package ref.
func mxMatrix(seed uint64, n, k int) (*Matrix, []float32) {
	blocks, scales := randomBytes(seed, n*k/2, 256), randomBytes(seed, n*k/MXBlock, 5)
	for i := range scales {
		scales[i] += 119
	}
	return Packer{}.MXFP4(blocks, scales, n, k), ref.MXFP4(blocks, scales)
}

// fp8Matrix is a random matrix and its weights by package ref.
func fp8Matrix(seed uint64, n, k int) (*Matrix, []float32) {
	codes := randomBytes(seed, n*k, 254)
	for i, c := range codes { // neither 0x7f nor 0xff
		codes[i] = c + c/127
	}
	grid := floats(seed, FP8Scales(n)*FP8Scales(k))
	return PackFP8(codes, rowScales(grid, n, k), n, k), ref.FP8Weights(codes, grid, n, k)
}

// rowScales repeats scales (n/128, k/128) for each output.
func rowScales(grid []float32, n, k int) []float32 {
	var all []float32
	for row := range n {
		all = append(all, grid[row/FP8Block*FP8Scales(k):][:FP8Scales(k)]...)
	}
	return all
}

func TestPackedMatMul(t *testing.T) {
	for _, s := range []struct{ rows, n, k int }{
		{1, 1, 32}, {1, 6, 64}, {2, 33, 96}, {3, 64, 128}, {5, 320, 32}, {1, 256, 160}, {7, 96, 288},
		{8, 128, 256}, {12, 64, 64}, {13, 100, 64}, {23, 160, 32}, {70, 65, 192}, {4, 512, 416},
	} {
		x := floats(1, s.rows*s.k)
		for kind, pack := range map[string]func(uint64, int, int) (*Matrix, []float32){"mxfp4": mxMatrix, "fp8": fp8Matrix, "q8": q8Matrix, "q4": q4Matrix} {
			m, w := pack(2, s.n, s.k)
			want, exact := ref.MatMul(x, w, s.rows, s.n, s.k), chain(x, w, s.rows, s.n, s.k)
			t.Run(fmt.Sprintf("%s/%dx%dx%d", kind, s.rows, s.n, s.k), func(t *testing.T) {
				eachVariant(t, func(t *testing.T) {
					got := make([]float32, s.rows*s.n)
					MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels())
					near(t, "y", got, want, 1e-4*float64(s.k), 1e-4)
					if !sameBits(got, exact) {
						t.Error("differs from the chain over the dequantised weights")
					}
				})
			})
		}
	}
}

// FP8 inputs need not fill blocks.
func TestFP8PartialBlocks(t *testing.T) {
	for _, s := range []struct{ n, k int }{{1, 1}, {40, 127}, {129, 129}, {200, 300}} {
		m, w := fp8Matrix(5, s.n, s.k)
		x := floats(6, 3*s.k)
		exact := chain(x, w, 3, s.n, s.k)
		eachVariant(t, func(t *testing.T) {
			got := make([]float32, 3*s.n)
			MatMul(got, s.n, x, s.k, 3, m, 0, m.Panels())
			if !sameBits(got, exact) {
				t.Errorf("(%d, %d) differs from the chain over the dequantised weights", s.n, s.k)
			}
		})
	}
}

// every gives a product for each of n codes at input 0: x is (1, 0, 0, …).
func every(t *testing.T, m *Matrix, want []float32) {
	t.Helper()
	x := make([]float32, m.K)
	x[0] = 1
	eachVariant(t, func(t *testing.T) {
		got := make([]float32, m.N)
		MatMul(got, m.N, x, m.K, 1, m, 0, m.Panels())
		if !sameBits(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// All codes with all scales, the least ones not normal.
func TestEveryMXFP4(t *testing.T) {
	const k = MXBlock
	for scale := range maxE8M0 + 1 {
		blocks, want := make([]byte, 16*k/2), make([]float32, 16)
		for code := range 16 {
			blocks[code*k/2] = byte(code)
			want[code] = float32(math.Ldexp(ref.FP4(byte(code)), scale-127)) + 0 // no minus zero
		}
		scales := bytes.Repeat([]byte{byte(scale)}, 16)
		m := Packer{}.MXFP4(blocks, scales, 16, k)
		x, got := make([]float32, k), make([]float32, 16)
		x[0] = 1
		for _, name := range Available() {
			restore, _ := Use(name)
			MatMul(got, 16, x, k, 1, m, 0, 1)
			restore()
			if !sameBits(got, want) {
				t.Fatalf("%s: scale %d gives %v, want %v", name, scale, got, want)
			}
		}
		plain := make([]float32, 16*k)
		FromMXFP4(plain, blocks, scales)
		for code := range 16 {
			if plain[code*k] != want[code] {
				t.Fatalf("code %d with scale %d is %v, want %v", code, scale, plain[code*k], want[code])
			}
		}
	}
}

func TestEveryFP8(t *testing.T) {
	for _, scale := range []float32{1, -0.37, 1e-40, 1e30, maxFP8Scale} {
		var codes []byte
		var want []float32
		for c := range 256 {
			if c&0x7f != 0x7f {
				codes = append(codes, byte(c))
				want = append(want, float32(ref.FP8(byte(c))*float64(scale))+0)
			}
		}
		n := len(codes)
		m := PackFP8(codes, filledWith(scale, n), n, 1)
		every(t, m, want)
		plain := make([]float32, n)
		for i := range plain {
			FromFP8(plain[i:i+1], codes[i:], []float32{scale})
		}
		if !near0(plain, want) {
			t.Errorf("FromFP8: %v, want %v", plain, want)
		}
	}
}

func filledWith(v float32, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// near0 compares values, not the sign of zeros.
func near0(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestPackedBytes(t *testing.T) {
	const n, k = 96, 256
	mx, _ := mxMatrix(1, n, k)
	f8, _ := fp8Matrix(1, n, k)
	m8, _ := q8Matrix(1, n, k)
	m4, _ := q4Matrix(1, n, k)
	for _, c := range []struct {
		m    *Matrix
		f    Format
		bits float64
	}{
		{mx, MXFP4, 4.25}, {f8, FP8, 8.25}, {m8, Q8, 8.5}, {m4, Q4, 4.5},
		{PackBF16(make([]byte, 2*n*k), n, k), BF16, 16}, {PackF32(make([]float32, n*k), n, k), F32, 32},
	} {
		if got := float64(c.m.Bytes()) * 8 / (n * k); got != c.bits || c.m.Bytes() != PackedBytes(n, k, c.f) {
			t.Errorf("%d: %v bits a weight, want %v; %d bytes, foreseen %d", c.f, got, c.bits, c.m.Bytes(), PackedBytes(n, k, c.f))
		}
	}
}

func TestPackedRefusals(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	mx := func(scale byte) error { return CheckE8M0([]byte{127, scale}) }
	f8 := func(code byte, scale float32) error {
		return CheckFP8(append(bytes.Repeat([]byte{0xfe, 0x80}, 9), code), []float32{1, scale})
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"mx nan": {mx(255), "scale 1 is 255"}, "mx large": {mx(253), "scale 1 is 253"}, "mx ok": {mx(252), ""},
		"code": {f8(0x7f, 1), "weight 18 is not a number (0x7f)"}, "minus": {f8(0xff, 1), "0xff"}, "ok": {f8(0xfe, 1), ""},
		"nan": {f8(0, nan), "scale 1 is NaN"}, "inf": {f8(0, inf), "scale 1 is -Inf"}, "large": {f8(0, 1e38), "scale 1 is 1e+38"},
	} {
		if c.err == nil && c.want != "" || c.err != nil && (c.want == "" || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
