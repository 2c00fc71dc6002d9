package cpu

import (
	"encoding/binary"
	"math"
)

// W16A16: weights of bf16, for rows that are rounded to bf16. A panel is laid out (K/2,
// PanelWidth, 2): a word has two inputs of an output, the earlier one in its low half. An odd K
// ends with a pair whose second half is zero.
//
// The order of sums is VDPBF16PS's (Intel's manual, volume 2, on that instruction): for each pair
// acc = fma(x[k+1], w[k+1], acc), and then acc = fma(x[k], w[k], acc). Numbers below the normal
// range of float32 count as zero before, and become zero after, each of them. AMX has an order of its own: see doc.go.

func pairsOf(k int) int { return (k + 1) / 2 }

func pairRow(dst []byte, x []float32) {
	ToBF16(dst[:2*len(x)], x)
	clear(dst[2*len(x) : 4*pairsOf(len(x))])
}

// tilePairsGeneric computes a tile in plain Go; t.k counts pairs, and t.ldX bytes.
func tilePairsGeneric(dst []float32, x []byte, w []uint16, t tile) {
	for row := range t.rows {
		for p := range t.panels {
			out := dst[row*t.ldDst+p*PanelWidth:][:PanelWidth]
			clear(out)
			for i := range t.k {
				addPair(out, x[row*t.ldX+4*i:], w[p*t.panelStride+2*PanelWidth*i:])
			}
		}
	}
}

func addPair(out []float32, x []byte, w []uint16) {
	first, second := widened(binary.LittleEndian.Uint16(x)), widened(binary.LittleEndian.Uint16(x[2:]))
	for j, acc := range out {
		acc = fmaNormal(second, widened(w[2*j+1]), acc)
		out[j] = fmaNormal(first, widened(w[2*j]), acc)
	}
}

const leastNormal = 0x1p-126

// fmaNormal is fma32 of normal numbers: others are zero, before and after.
func fmaNormal(a, b, c float32) float32 {
	a, b, c = normal(a), normal(b), normal(c)
	v := fma32(a, b, c)
	if math.Abs(float64(v)) == leastNormal {
		// A sum that only the coarser steps below the normal range would round up to it is zero, too. It
		// is exact in float64, as products of bf16 have 16 bits.
		if sum := float64(a)*float64(b) + float64(c); math.Abs(sum) < leastNormal-0x1p-151 {
			v /= 2
		}
	}
	return normal(v)
}

// normal is x, or zero with its sign if it is below the normal range.
func normal(x float32) float32 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & (1 << 31))
	}
	return x
}
