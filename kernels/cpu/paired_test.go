package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// pairsMatrix is random weights, as W16A16 and in float32.
func pairsMatrix(seed uint64, n, k int) (*Matrix, []float32) {
	w := floats(seed, n*k)
	return Packer{}.Pairs(k, bytesOf(w)), w
}

// pairedChain is the contract in other words: each sum is exact and rounded once, to 24 bits
// without a bound of the exponent, and zero where it is below the normal range then.
func pairedChain(x, w []float32, rows, n, k int) []float32 {
	y := make([]float32, rows*n)
	x = append([]float32(nil), x...)
	RoundBF16(x)
	for i := range y {
		row, weights := x[i/n*k:][:k], w[i%n*k:][:k]
		for j := 0; j < k; j += 2 {
			if j+1 < k {
				y[i] = roundedSum(row[j+1], weights[j+1], y[i])
			}
			y[i] = roundedSum(row[j], weights[j], y[i])
		}
	}
	return y
}

func roundedSum(a, b, c float32) float32 {
	a, b, c = normal(a), normal(b), normal(c)
	if s := float64(a)*float64(b) + float64(c); s == 0 || !(math.Abs(s) < 0x1p-100) {
		return fma32(a, b, c)
	}
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(v)) }
	sum := new(big.Float).SetPrec(1000).Mul(exact(a), exact(b))
	sum.Add(sum, exact(c)).SetPrec(24).SetMode(big.ToNearestEven)
	if sum.MantExp(nil) <= -126 { // a mantissa is below 1 here
		return float32(math.Copysign(0, float64(sum.Sign())))
	}
	v, _ := sum.Float32()
	return v
}

func TestPairedMatMul(t *testing.T) {
	for _, s := range []struct{ rows, n, k int }{
		{1, 1, 1}, {1, 6, 2}, {2, 33, 3}, {3, 64, 8}, {5, 320, 32}, {1, 256, 65}, {7, 96, 48},
		{8, 128, 31}, {12, 64, 64}, {13, 100, 16}, {23, 160, 32}, {70, 65, 24}, {4, 512, 20}, {9, 40, 400}, {32, 64, 600}, {67, 96, 545},
	} {
		m, w := pairsMatrix(2, s.n, s.k)
		x := floats(1, s.rows*s.k)
		near32 := ref.MatMul(x, w, s.rows, s.n, s.k)
		t.Run(fmt.Sprintf("%dx%dx%d", s.rows, s.n, s.k), func(t *testing.T) {
			eachVariant(t, func(t *testing.T) {
				got := make([]float32, s.rows*s.n)
				MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels())
				if !sameBits(got, pairsContract(x, w, s.rows, s.n, s.k)) {
					t.Error("differs from the chain of the contract")
				}
				near(t, "y", got, near32, 0x1p-6*math.Sqrt(float64(s.k)), 0) // inputs are within 2^-8 of themselves
			})
		})
	}
}

// Numbers at both ends of the range, and what is none, give the same bits in each variant.
func TestPairedExtremes(t *testing.T) {
	const n, k = 64, 6
	rng := rand.New(rand.NewPCG(5, 6))
	some := func(count int) []float32 {
		x := make([]float32, count)
		for i := range x {
			bits := rng.Uint32()
			switch rng.IntN(4) {
			case 0: // products around the least normal number
				bits = bits&0x807fffff | uint32(127-63-rng.IntN(16)+8)<<23
			case 1: // below it
				bits &= 0x80ffffff
			case 2:
				bits = bits&0x807f0000 | uint32(127-63)<<23
			}
			x[i] = math.Float32frombits(bits)
		}
		return x
	}
	for range 400 {
		w := some(n * k)
		m, x := Packer{}.Pairs(k, bytesOf(w)), some(2*k)
		eachVariant(t, func(t *testing.T) {
			for rows := 1; rows <= 2; rows++ { // AMX takes tiles for two
				got := make([]float32, rows*n)
				MatMul(got, n, x, k, rows, m, 0, m.Panels())
				if !sameBits(got, pairsContract(x, w, rows, n, k)) {
					t.Fatalf("differs from the contract: x %x", x[:rows*k])
				}
			}
		})
	}
}

// A sum just below the least normal number is zero, unless 24 bits would round it up.
func TestLeastNormal(t *testing.T) {
	const least = 0x1p-126
	for _, tt := range []struct{ a, b, acc, want float32 }{
		{-0x1p-75, 0x1p-77, least, least}, // 2^-152 less: rounds up
		{-0x1p-75, 0x1p-76, least, least}, // a tie, to even
		{-0x1p-75, 0x1.8p-76, least, 0},   // 3/2 of that: rounds to 2^-126 - 2^-150
		{0x1p-75, 0x1.8p-76, -least, float32(math.Copysign(0, -1))},
		{-0x1p-75, 0x1p-75, least, 0},
		{0x1p-64, 0x1p-62, 0, least},
		{0x1.fep-64, 0x1p-63, 0, 0},
	} {
		x, w := []float32{tt.a, tt.acc}, []float32{tt.b, 1}
		raw := make([]byte, 0, 4)
		for _, v := range w {
			raw = binary.LittleEndian.AppendUint16(raw, bf16Bits(v))
		}
		m := Packer{}.Pairs(2, raw)
		eachVariant(t, func(t *testing.T) {
			want := tt.want
			if active == amxTiles { // has one sum of x[0], and another of x[1]
				want = tiledChain(x, w, 1, 1, 2)[0]
			}
			got := make([]float32, 1)
			if MatMul(got, 1, x, 2, 1, m, 0, 1); !sameBits(got, []float32{want}) {
				t.Errorf("%x · %x + %x is %x, want %x", tt.a, tt.b, tt.acc, got[0], want)
			}
		})
	}
}

// Any row of any batch, cut at any panel and rounded in any pieces, has the bits of the row alone.
func TestPairedInvariance(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows, n := rapid.IntRange(1, 70).Draw(t, "rows"), rapid.IntRange(1, 200).Draw(t, "n")
			k, gap := rapid.IntRange(1, 90).Draw(t, "k"), rapid.IntRange(0, 3).Draw(t, "gap")
			x := floats(rapid.Uint64().Draw(t, "seed"), rows*(k+gap))
			m, _ := pairsMatrix(3, n, k)
			cut, r := rapid.IntRange(0, m.Panels()).Draw(t, "cut"), rapid.IntRange(0, rows-1).Draw(t, "row")
			rounded := m.NewRounded(rows)
			rounded.Round(x[r*(k+gap):], k+gap, r, rows)
			rounded.Round(x, k+gap, 0, r)
			batch, alone := make([]float32, rows*n), make([]float32, n)
			MatMulRounded(batch, n, rounded, m, cut, m.Panels())
			MatMulRounded(batch, n, rounded, m, 0, cut)
			rounded.Release()
			MatMul(alone, n, x[r*(k+gap):], k, 1, m, 0, m.Panels())
			if !sameBits(batch[r*n:(r+1)*n], alone) {
				t.Fatalf("row %d of %d differs", r, rows)
			}
		})
	})
}

func TestPairedBytes(t *testing.T) {
	for _, k := range []int{1, 2, 33} {
		if m, _ := pairsMatrix(1, 40, k); m.Bytes() != PackedBytes(40, k, W16A16) || !m.RoundsRows() || W16A16.Grouped() {
			t.Errorf("k %d: %d bytes, said %d", k, m.Bytes(), PackedBytes(40, k, W16A16))
		}
	}
}
