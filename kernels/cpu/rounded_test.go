package cpu

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

// roundedChain is the contract for rounded rows: w (n, k) has decoded weights.
func roundedChain(x []float32, m *Matrix, rows int) []float32 {
	y := make([]float32, rows*m.N)
	f := m.quantised()
	for i := range y {
		row, out := x[i/m.N*m.K:][:m.K], i%m.N
		p := out / PanelWidth
		codes, steps := m.codes[p*len(m.codes)/m.Panels():], m.steps[p*m.K/QGroup*PanelWidth:]
		for g := 0; g < m.K; g += QGroup {
			whole, step := ref.Rounded(row[g : g+QGroup])
			sum := 0
			for j, c := range whole {
				sum += c * int(qCode(codes, f, g+j, out%PanelWidth))
			}
			if f == W4A8 {
				sum *= 16
			}
			y[i] = fma32(float32(sum), widened(steps[g/QGroup*PanelWidth+out%PanelWidth])*step, y[i])
		}
	}
	return y
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
	pairs := PackPairs(make([]byte, 2*40*64), 40, 64)
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
