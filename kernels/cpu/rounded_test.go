package cpu

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// roundedChain is the contract for rounded rows.
func roundedChain(x []float32, m *Matrix, rows int) []float32 {
	y := make([]float32, rows*m.N)
	group := QGroup
	if m.coded != nil && m.coded.Group == 16 {
		group = 16
	}
	for i := range y {
		row, out := x[i/m.N*m.K:][:m.K], i%m.N
		for k := 0; k < m.K; k += group {
			y[i] = addRounded(y[i], row[k/QGroup*QGroup:][:QGroup], m, out, k, group)
		}
	}
	return y
}

// addRounded adds inputs of a group from k on, of the QGroup inputs in x.
func addRounded(y float32, x []float32, m *Matrix, out, k, group int) float32 {
	whole, step := ref.Rounded(x)
	p, j := out/PanelWidth, out%PanelWidth
	sum, all := 0, 0
	for i, c := range whole {
		all += c
		if i >= k%QGroup && i < k%QGroup+group {
			sum += c * testCode(m, p, k/QGroup*QGroup+i, j)
		}
	}
	if m.coded == nil {
		return fma32(float32(sum), widened(m.steps[(p*m.K+k)/QGroup*PanelWidth+j])*step, y)
	}
	scale, offset := m.scaleAt(p, k, j)
	if m.coded.Bits == 4 {
		scale *= 1. / 16
	}
	y = fma32(float32(sum), scale*step, y)
	if m.coded.Kind != Steps && m.coded.Kind != SubSteps {
		y = fma32(float32(all)*step, offset, y)
	}
	return y
}

// testCode is what the contract says of a code: of 4 bits 16 times it, less 8 where weights have no offsets.
func testCode(m *Matrix, p, k, j int) int {
	f := m.quantised()
	switch {
	case m.coded != nil && m.coded.Bits == 4 && m.coded.Kind == Steps:
		return 16 * (m.codeAt(p, k, j) - 8)
	case m.coded != nil && m.coded.Bits == 4:
		return 16 * m.codeAt(p, k, j)
	case m.coded != nil:
		return m.codeAt(p, k, j)
	}
	code := int(qCode(m.codes[p*len(m.codes)/m.Panels():], f, k, j))
	if f == W4A8 {
		code *= 16
	}
	return code
}

var roundedKinds = map[string]func(uint64, int, int) (*Matrix, []float32){"w8a8": w8a8Matrix, "w4a8": w4a8Matrix}

func TestRoundedMatMul(t *testing.T) {
	for _, s := range []struct{ rows, n, k int }{
		{1, 1, 32}, {1, 6, 64}, {2, 33, 96}, {3, 64, 128}, {5, 320, 32}, {1, 256, 160}, {7, 96, 288},
		{8, 128, 256}, {12, 64, 64}, {13, 100, 64}, {23, 160, 32}, {70, 65, 192}, {4, 512, 416}, {9, 40, 3296},
	} {
		x := floats(1, s.rows*s.k)
		for kind, pack := range roundedKinds {
			m, w := pack(2, s.n, s.k)
			near32 := ref.MatMul(x, w, s.rows, s.n, s.k)
			exact := roundedChain(x, m, s.rows)
			t.Run(fmt.Sprintf("%s/%dx%dx%d", kind, s.rows, s.n, s.k), func(t *testing.T) {
				eachVariant(t, func(t *testing.T) {
					got := make([]float32, s.rows*s.n)
					MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels())
					if !sameBits(got, exact) {
						t.Error("differs from the chain of the contract")
					}
					// Codes of rows are within 1/254 of a group's largest magnitude, which is some 3 here.
					near(t, "y", got, near32, 0.04*math.Sqrt(float64(s.k)), 0)
				})
			})
		}
	}
}

// Rows with every kind of group: zeros, values too small, too large and no numbers among others.
func TestRoundedRows(t *testing.T) {
	const k = 6 * QGroup
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, special := range []float32{0, 0x1p-101, -0x1p-100, 0x1p-149, 0x1.fffffep127, inf, -inf, nan} {
		x := floats(3, k)
		clear(x[QGroup : 2*QGroup])
		x[QGroup+5] = special
		x[4*QGroup] = 1e30
		for kind, pack := range roundedKinds {
			m, _ := pack(4, 40, k)
			exact := roundedChain(x, m, 1)
			eachVariant(t, func(t *testing.T) {
				got := make([]float32, 40)
				MatMul(got, 40, x, k, 1, m, 0, m.Panels())
				if !sameBits(got, exact) {
					t.Errorf("%s with %v differs from the contract", kind, special)
				}
			})
		}
	}
}

// Any row of any batch, cut at any panel and rounded in any pieces, has the bits of the row alone.
func TestRoundedInvariance(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows, n := rapid.IntRange(1, 70).Draw(t, "rows"), rapid.IntRange(1, 200).Draw(t, "n")
			k, gap := QGroup*rapid.IntRange(1, 4).Draw(t, "groups"), rapid.IntRange(0, 3).Draw(t, "gap")
			x := floats(rapid.Uint64().Draw(t, "seed"), rows*(k+gap))
			for kind, pack := range roundedKinds {
				m, _ := pack(3, n, k)
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
					t.Fatalf("%s: row %d of %d differs", kind, r, rows)
				}
			}
		})
	})
}

// Panels and columns that are not asked for stay as they are.
func TestRoundedWritesItsColumns(t *testing.T) {
	const rows, n, k, ld = 9, 100, 64, 130
	m, _ := w4a8Matrix(4, n, k)
	eachVariant(t, func(t *testing.T) {
		dst := make([]float32, rows*ld)
		for i := range dst {
			dst[i] = 1e6
		}
		MatMul(dst, ld, floats(5, rows*(k+3)), k+3, rows, m, 1, 4)
		for i, v := range dst {
			if inside := i%ld >= PanelWidth && i%ld < n; (v != 1e6) != inside {
				t.Fatalf("column %d of row %d is %v", i%ld, i/ld, v)
			}
		}
	})
}

func TestRoundedPanics(t *testing.T) {
	m, _ := w8a8Matrix(1, 40, 64)
	plain, _ := q8Matrix(1, 40, 64)
	r := m.NewRounded(2)
	narrow, _ := w8a8Matrix(1, 40, 32)
	pairs := Packer{}.Pairs(64, make([]byte, 2*40*64))
	for what, f := range map[string]func(){
		"other inputs":     func() { MatMulRounded(make([]float32, 80), 40, narrow.NewRounded(2), m, 0, 2) },
		"other rows":       func() { MatMulRounded(make([]float32, 80), 40, pairs.NewRounded(2), m, 0, 2) },
		"a short dst":      func() { MatMulRounded(make([]float32, 79), 40, r, m, 0, 2) },
		"a matrix without": func() { MatMulRounded(make([]float32, 80), 40, r, plain, 0, 2) },
		"a short x":        func() { r.Round(make([]float32, 127), 64, 0, 2) },
		"too many rows":    func() { r.Round(make([]float32, 192), 64, 0, 3) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", what)
				}
			}()
			f()
		}()
	}
}

// roundingCodings are the codings that rows in 8 bits meet.
func roundingCodings(f func(name string, c Coding)) {
	for name, c := range codings {
		c.Rounds = true
		f(name, c.Coding)
	}
	f("GPTQ 64", Coding{Bits: 4, Group: 64, Kind: StepsZeros, Rounds: true})
	f("GPTQ 512", Coding{Bits: 4, Group: 512, Kind: StepsZeros, Rounds: true})
}

// Codes of files with rounded rows have the bits of the contract, and are as near to the product in float64 as the
// rounding of rows allows: half a step, the largest magnitude of 32 inputs over 254, for each input.
func TestRoundedCodes(t *testing.T) {
	for _, s := range []struct{ rows, n, k int }{
		{1, 1, 512}, {1, 160, 1024}, {2, 96, 256}, {3, 100, 512}, {4, 256, 768}, {5, 64, 256}, {13, 130, 1280}, {8, 160, 1024}, {29, 40, 512},
	} {
		x := floats(1, s.rows*s.k)
		roundingCodings(func(name string, c Coding) {
			if c.Check(s.k) != nil {
				return
			}
			m, w := codedMatrix(2, s.n, s.k, c)
			exact := roundedChain(x, m, s.rows)
			t.Run(fmt.Sprintf("%s/%dx%dx%d", name, s.rows, s.n, s.k), func(t *testing.T) {
				eachVariant(t, func(t *testing.T) {
					got := make([]float32, s.rows*s.n)
					MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels())
					if !sameBits(got, exact) {
						t.Fatal("differs from the contract")
					}
					withinRounding(t, got, x, w, s.rows, s.n, s.k)
				})
			})
		})
	}
}

// withinRounding compares with products in float64.
func withinRounding(t *testing.T, got, x, w []float32, rows, n, k int) {
	t.Helper()
	for i, v := range got {
		row, weights := x[i/n*k:][:k], w[i%n*k:][:k]
		sum, bound := 0.0, 0.0
		for g := 0; g < k; g += QGroup {
			top, size := 0.0, 0.0
			for at := g; at < g+QGroup; at++ {
				sum += float64(row[at]) * float64(weights[at])
				top, size = max(top, math.Abs(float64(row[at]))), size+math.Abs(float64(weights[at]))
			}
			bound += size * top * (1/254. + 1e-5) // and what float32 rounds
		}
		if d := math.Abs(float64(v) - sum); !(d <= bound) {
			t.Fatalf("[%d] is %v, %v in float64: off by %v, at most %v", i, v, sum, d, bound)
		}
	}
}

// Any row of any batch, cut at any panel, has the bits of the row alone, and those of plain Go.
func TestRoundedCodesInvariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, n, k := rapid.IntRange(1, 30).Draw(t, "rows"), rapid.IntRange(1, 200).Draw(t, "n"), 256*rapid.IntRange(1, 3).Draw(t, "blocks")
		name := rapid.SampledFrom([]string{"Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "GPTQ 128"}).Draw(t, "coding")
		c := codings[name].Coding
		c.Rounds = true
		m, _ := codedMatrix(rapid.Uint64().Draw(t, "seed"), n, k, c)
		x := floats(rapid.Uint64().Draw(t, "rows' seed"), rows*k)
		cut, r := rapid.IntRange(0, m.Panels()).Draw(t, "cut"), rapid.IntRange(0, rows-1).Draw(t, "row")
		plain := make([]float32, n)
		for _, variant := range Available() {
			restore, _ := Use(variant)
			batch, alone := make([]float32, rows*n), make([]float32, n)
			MatMul(batch, n, x, k, rows, m, cut, m.Panels())
			MatMul(batch, n, x, k, rows, m, 0, cut)
			MatMul(alone, n, x[r*k:], k, 1, m, 0, m.Panels())
			restore()
			if variant == "generic" {
				plain = alone
			}
			if !sameBits(batch[r*n:(r+1)*n], alone) || !sameBits(alone, plain) {
				t.Fatalf("%s in %s: row %d of %d differs alone, or from plain Go", name, variant, r, rows)
			}
		}
	})
}

// A stack rounds rows once where all parts do, and otherwise for each part that does.
func TestRoundedStack(t *testing.T) {
	const k, rows = 512, 5
	a, _ := codedMatrix(1, 64, k, rounding("Q4_K"))
	b, _ := codedMatrix(2, 40, k, rounding("Q6_K"))
	c, _ := codedMatrix(2, 40, k, codings["Q6_K"].Coding)
	x := floats(4, rows*k)
	for _, parts := range [][]*Matrix{{a, b}, {a, c}} {
		m, at := Stack(parts...), 0
		if m.RoundsRows() != (parts[1] == b) {
			t.Errorf("a stack rounds rows: %v", m.RoundsRows())
		}
		want, got := make([]float32, rows*m.N), make([]float32, rows*m.N)
		for _, part := range parts {
			MatMul(want[at:], m.N, x, k, rows, part, 0, part.Panels())
			at += part.N
		}
		MatMul(got, m.N, x, k, rows, m, 0, 1)
		MatMul(got, m.N, x, k, rows, m, 1, m.Panels())
		if !sameBits(got, want) {
			t.Error("a stack differs from its parts")
		}
	}
}

func rounding(name string) Coding {
	c := codings[name].Coding
	c.Rounds = true
	return c
}

func TestCanRound(t *testing.T) {
	for _, tt := range []struct {
		Coding
		k    int
		want bool
	}{
		{codings["Q4_0"].Coding, 96, true},
		{codings["Q6_K"].Coding, 256, true},
		{codings["GPTQ 1 group"].Coding, 96, true},
		{Coding{Bits: 4, Group: 128, Kind: StepsZeros}, 160, true},
		{Coding{Bits: 4, Group: 128, Kind: StepsZeros}, 200, false},
		{Coding{Bits: 4, Group: 16, Kind: StepsZeros}, 256, false},
		{Coding{Bits: 4, Group: 32, Kind: Steps}, 256, false},
		{Coding{Bits: 4, Group: 64, Kind: Steps, Zero: -8}, 256, false},
		{Coding{Bits: 8, Group: 128, Kind: Steps}, 256, false},
		{codings["Q4_K"].Coding, 256, true},
		{Coding{Bits: 4, Group: 64, Kind: SubStepsMins}, 256, false},
		{Coding{Bits: 8, Group: 32, Kind: SubSteps}, 256, false},
	} {
		if got := tt.CanRound(tt.k); got != tt.want {
			t.Errorf("%+v of %d inputs: %v", tt.Coding, tt.k, got)
		}
	}
}
