package cpu

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A table's outputs, written in any order and more than once, give the bits of the
// matrix that is packed of them whole.
func TestTable(t *testing.T) {
	for name, f := range map[string]Format{"f32": F32, "bf16": BF16, "fp8": FP8} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkTable(t, f) })
		})
	}
}

func checkTable(t *rapid.T, f Format) {
	k, n := rapid.IntRange(1, 300).Draw(t, "k"), rapid.IntRange(1, 100).Draw(t, "n")
	table, rows := NewTable(k, f), make([][]float32, n)
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 40).Draw(t, "order") {
		table.Grow(i + 1)
		rows[i] = floats(rapid.Uint64().Draw(t, "seed"), k)
		table.SetRow(i, table.Encode(nil, rows[i]))
	}
	all, decoded := make([]float32, table.Matrix().N*k), make([]float32, k)
	for i := range min(n, table.Matrix().N) {
		if rows[i] == nil {
			continue
		}
		b := table.AppendRow(nil, i)
		if len(b) != table.RowBytes() || !bytes.Equal(b, table.Encode(nil, rows[i])) {
			t.Fatalf("output %d comes back otherwise", i)
		}
		table.Decode(decoded, b)
		if table.Row(all[i*k:], i); !sameBits(all[i*k:(i+1)*k], decoded) {
			t.Fatalf("output %d decodes otherwise", i)
		}
	}
	x := floats(9, k)
	got, want := make([]float32, table.Matrix().N), make([]float32, table.Matrix().N)
	MatMul(got, len(got), x, k, 1, table.Matrix(), 0, table.Matrix().Panels())
	plain := PackF32(all, len(want), k)
	MatMul(want, len(want), x, k, 1, plain, 0, plain.Panels())
	if !sameBits(got, want) {
		t.Fatal("the products differ from those of the decoded outputs")
	}
	if chain := Chain(x, all[:k]); chain != got[0] {
		t.Fatalf("the chain is %v, the kernel has %v", chain, got[0])
	}
}

// Each finite value gets the nearest code.
func TestNearestFP8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(rapid.Float32Range(-1e30, 1e30), 1, 200).Draw(t, "row")
		table, got := NewTable(len(row), FP8), make([]float32, len(row))
		b := table.Encode(nil, row)
		table.Decode(got, b)
		for i, v := range row {
			if b[i]&0x7f == 0x7f {
				t.Fatalf("%v became no number", v)
			}
			scale := float32(0)
			for _, w := range row[i/FP8Block*FP8Block : min(len(row), (i/FP8Block+1)*FP8Block)] {
				scale = max(scale, float32(math.Abs(float64(w)))/largestE4M3)
			}
			best := math.Inf(1)
			for _, code := range e4m3 {
				if code == code {
					best = min(best, math.Abs(float64(code)*float64(scale)-float64(v)))
				}
			}
			if off := math.Abs(float64(got[i]) - float64(v)); off > best*(1+1e-5)+math.Abs(float64(v))*1e-6+2e-45 {
				t.Fatalf("%v became %v; a nearer one is %v away", v, got[i], best)
			}
		}
	})
}

// What is beyond bf16 stays finite; zeros stay zeros.
func TestTableEdges(t *testing.T) {
	for _, f := range []Format{F32, BF16, FP8} {
		table := NewTable(4, f)
		row := []float32{math.MaxFloat32, -math.MaxFloat32, 0, math.SmallestNonzeroFloat32}
		got := make([]float32, 4)
		table.Decode(got, table.Encode(nil, row))
		for i, v := range got {
			if v != v || math.IsInf(float64(v), 0) {
				t.Errorf("format %d: %v became %v", f, row[i], v)
			}
		}
		table.Decode(got, table.Encode(nil, make([]float32, 4)))
		for _, v := range got {
			if v != 0 {
				t.Errorf("format %d: zero became %v", f, v)
			}
		}
	}
}
