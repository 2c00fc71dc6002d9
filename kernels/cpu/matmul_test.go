package cpu

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
)

var matMulShapes = []struct{ rows, n, k int }{
	{1, 1, 1}, {1, 6, 48}, {3, 32, 16}, {2, 33, 17}, {5, 320, 48}, {1, 256, 112}, {7, 96, 112},
	{8, 128, 256}, {12, 64, 100}, {13, 100, 64}, {23, 160, 33}, {70, 65, 31}, {4, 512, 7},
}

// packs returns w (n, k) in both packings; w is rounded to bf16 first.
func packs(w []float32, n, k int) map[string]*Matrix {
	bf := PackBF16(bytesOf(w), n, k)
	columns := transposed(w, n, k)
	return map[string]*Matrix{
		"bf16": bf, "f32": PackF32(w, n, k),
		"columns": PackColumns(columns, n, k), "bf16 columns": PackBF16Columns(bytesOf(columns), n, k),
	}
}

func TestMatMul(t *testing.T) {
	for _, s := range matMulShapes {
		x, w := floats(1, s.rows*s.k), floats(2, s.n*s.k)
		for kind, m := range packs(w, s.n, s.k) {
			want := ref.MatMul(x, w, s.rows, s.n, s.k)
			exact := chain(x, w, s.rows, s.n, s.k)
			t.Run(fmt.Sprintf("%s/%dx%dx%d", kind, s.rows, s.n, s.k), func(t *testing.T) {
				eachVariant(t, func(t *testing.T) {
					got := make([]float32, s.rows*s.n)
					MatMul(got, s.n, x, s.k, s.rows, m, 0, m.Panels())
					near(t, "y", got, want, 1e-5*float64(s.k), 1e-5)
					if !sameBits(got, exact) {
						t.Error("differs from the chain of the contract")
					}
				})
			})
		}
	}
}

// chain is the contract in one line.
func chain(x, w []float32, rows, n, k int) []float32 {
	y := make([]float32, rows*n)
	for i := range y {
		for j := range k {
			y[i] = fma32(x[i/n*k+j], w[i%n*k+j], y[i])
		}
	}
	return y
}

// Any row of any batch, cut at any panel, has the bits of the row alone.
func TestMatMulInvariance(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows := rapid.IntRange(1, 70).Draw(t, "rows")
			n, k := rapid.IntRange(1, 200).Draw(t, "n"), rapid.IntRange(1, 80).Draw(t, "k")
			x := floats(rapid.Uint64().Draw(t, "seed"), rows*k)
			matrices := packs(floats(3, n*k), n, k)
			matrices["fp8"], _ = fp8Matrix(3, n, k)
			if k >= MXBlock {
				matrices["mxfp4"], _ = mxMatrix(3, n, k/MXBlock*MXBlock)
			}
			for kind, m := range matrices {
				cut := rapid.IntRange(0, m.Panels()).Draw(t, "cut")
				r := rapid.IntRange(0, rows-1).Draw(t, "row")
				batch, alone := make([]float32, rows*n), make([]float32, n)
				MatMul(batch, n, x, k, rows, m, cut, m.Panels())
				MatMul(batch, n, x, k, rows, m, 0, cut)
				MatMul(alone, n, x[r*k:], m.K, 1, m, 0, m.Panels())
				if !sameBits(batch[r*n:(r+1)*n], alone) {
					t.Fatalf("%s: row %d of %d differs", kind, r, rows)
				}
			}
		})
	})
}

// Strides leave the columns between rows and other panels alone.
func TestMatMulWritesItsColumns(t *testing.T) {
	const rows, n, k, ld = 9, 100, 20, 130
	m := PackF32(floats(4, n*k), n, k)
	eachVariant(t, func(t *testing.T) {
		dst := make([]float32, rows*ld)
		for i := range dst {
			dst[i] = 42
		}
		MatMul(dst, ld, floats(5, rows*(k+3)), k+3, rows, m, 1, 4)
		for i, v := range dst {
			inside := i%ld >= PanelWidth && i%ld < n
			if (v != 42) != inside {
				t.Fatalf("column %d of row %d is %v", i%ld, i/ld, v)
			}
		}
	})
}

// transposed is w (n, k) as (k, n).
func transposed(w []float32, n, k int) []float32 {
	t := make([]float32, len(w))
	for i, v := range w {
		t[i%k*n+i/k] = v
	}
	return t
}

func TestMatMulPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a short dst is accepted")
		}
	}()
	MatMul(make([]float32, 5), 6, make([]float32, 4), 4, 1, PackF32(make([]float32, 24), 6, 4), 0, 1)
}

// rowOf unpacks the weights of output n into dst (K).
func rowOf(m *Matrix, dst []float32, n int) {
	at := n/PanelWidth*m.K*PanelWidth + n%PanelWidth
	if m.f32 != nil {
		for i := range dst[:m.K] {
			dst[i] = m.f32[at+i*PanelWidth]
		}
		return
	}
	at = interleaved(at)
	for i := range dst[:m.K] {
		dst[i] = math.Float32frombits(uint32(m.bf[at+i*PanelWidth]) << 16)
	}
}

// What is packed can be found again.
func TestPacked(t *testing.T) {
	const n, k = 70, 9
	w := floats(6, n*k)
	for kind, m := range packs(w, n, k) {
		row := make([]float32, k)
		for i := range n {
			if rowOf(m, row, i); !sameBits(row, w[i*k:(i+1)*k]) {
				t.Fatalf("%s: row %d is %v", kind, i, row)
			}
		}
	}
}
