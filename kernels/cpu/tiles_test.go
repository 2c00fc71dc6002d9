package cpu

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
)

// tiledChain is the contract of W16A16 with AMX: for each 32 inputs the sums of products of the even and of the odd
// ones, each from +0 on, and then acc = acc + (even + odd).
func tiledChain(x, w []float32, rows, n, k int) []float32 {
	y := make([]float32, rows*n)
	x = append([]float32(nil), x...)
	RoundBF16(x)
	for i := range y {
		row, weights := x[i/n*k:][:k], w[i%n*k:][:k]
		for from := 0; from < k; from += 32 {
			to := min(k, from+32)
			y[i] = addStep(row[from:to], weights[from:to], y[i])
		}
	}
	return y
}

// addStep is what TDPBF16PS adds to an output.
func addStep(x, w []float32, acc float32) float32 {
	var sums [2]float32
	for j := range (len(x) + 1) / 2 * 2 {
		if j == len(x) { // what fills the last pair
			sums[1] = fmaNormal(0, 0, sums[1])
			continue
		}
		sums[j%2] = fmaNormal(x[j], w[j], sums[j%2])
	}
	return normal(normal(acc) + normal(sums[0]+sums[1]))
}

// pairsContract is the contract of the variant in use.
func pairsContract(x, w []float32, rows, n, k int) []float32 {
	if active == amxTiles {
		return tiledChain(x, w, rows, n, k)
	}
	return pairedChain(x, w, rows, n, k)
}

// What a processor made of tiles: rows (16, 32) and weights (16, 16, 2) in bf16, sums before and after (16, 16) in float32.
// testdata/README.md says which.
func TestTileProducts(t *testing.T) {
	raw, err := os.ReadFile("testdata/tdpbf16ps.bin")
	if err != nil || len(raw) != 4*4096 {
		t.Fatalf("%d bytes, want those of 4 products: %v", len(raw), err)
	}
	half := func(at int) float32 { return widened(binary.LittleEndian.Uint16(raw[at:])) }
	float := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(raw[at:])) }
	for ; len(raw) > 0; raw = raw[4096:] {
		for i := range 256 {
			var x, w [32]float32
			for k := range 32 {
				x[k], w[k] = half(i/16*64+2*k), half(1024+k/2*64+i%16*4+k%2*2)
			}
			if got, want := addStep(x[:], w[:], float(2048+4*i)), float(3072+4*i); !sameBits([]float32{got}, []float32{want}) {
				t.Fatalf("row %d, output %d: %v, the processor's is %v", i/16, i%16, got, want)
			}
		}
	}
}
