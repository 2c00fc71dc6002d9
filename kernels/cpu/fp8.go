package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// FP8Block consecutive inputs of an output share one FP8 scale.
const FP8Block = 128

// maxFP8Scale keeps every product with a code, of at most 448, finite.
const maxFP8Scale = math.MaxFloat32 / 512

// e4m3 are the values of the 8-bit codes e4m3fn: sign, four bits of exponent,
// three of mantissa, no infinities (Micikevicius et al., FP8 Formats for Deep
// Learning, table 1).
var e4m3 = func() (values [256]float32) {
	for c := range values {
		exp, frac := c>>3&15, float64(c&7)
		v := math.Ldexp(8+frac, exp-10)
		if exp == 0 {
			v = math.Ldexp(frac, -9)
		}
		if c&0x7f == 0x7f {
			v = math.NaN()
		}
		values[c] = float32(math.Copysign(v, float64(0x7f-c)))
	}
	return values
}()

// FP8Scales returns the number of scales of an output with k inputs.
func FP8Scales(k int) int { return (k + FP8Block - 1) / FP8Block }

// PackFP8 packs codes e4m3fn, row-major (n, k), with scales (n, k/128 rounded
// up), which CheckFP8 has passed: a weight is its code's value times its block's
// scale, rounded once to float32. The weights stay packed: 8.25 bits each.
func PackFP8(codes []byte, scales []float32, n, k int) *Matrix {
	return Packer{}.FP8(codes, scales, n, k)
}

// FP8 is PackFP8.
func (p Packer) FP8(codes []byte, scales []float32, n, k int) *Matrix {
	mustHold("PackFP8", len(codes), n, k, 1)
	mustHold("PackFP8", len(scales), n, FP8Scales(k), 1)
	m := &Matrix{N: n, K: k}
	m.codes = take[byte](p.Space, m.Panels()*k*PanelWidth)
	m.scales = take[float32](p.Space, m.Panels()*FP8Scales(k)*PanelWidth)
	p.each(m.Panels(), k*PanelWidth, func(panel int) { m.packFP8(panel, codes, scales) })
	return m
}

func (m *Matrix) packFP8(panel int, codes []byte, scales []float32) {
	k, grid, first := m.K, FP8Scales(m.K), panel*PanelWidth
	outputs := min(PanelWidth, m.N-first)
	if outputs < PanelWidth {
		clear(m.codes[first*k:][:PanelWidth*k])
		clear(m.scales[first*grid:][:PanelWidth*grid])
	}
	for from := 0; from < k; from += packBlock {
		for j := range outputs {
			dst := m.codes[interleaved(first*k+from*PanelWidth+j):]
			for i, c := range codes[(first+j)*k:][from:min(from+packBlock, k)] {
				dst[i*PanelWidth] = c
			}
		}
	}
	for j := range outputs {
		for b, s := range scales[(first+j)*grid:][:grid] {
			m.scales[first*grid+b*PanelWidth+j] = s
		}
	}
}

// CheckFP8 refuses codes and scales that are not a number, and scales too large for float32.
func CheckFP8(codes []byte, scales []float32) error {
	if i := firstNaN(codes); i >= 0 {
		return fmt.Errorf("FP8 weight %d is not a number (0x%02x)", i, codes[i])
	}
	fits := func(s float32) bool { return s >= -maxFP8Scale && s <= maxFP8Scale }
	if i := slices.IndexFunc(scales, func(s float32) bool { return !fits(s) }); i >= 0 {
		return fmt.Errorf("FP8 scale %d is %v: it must be a number of at most %g", i, scales[i], float32(maxFP8Scale))
	}
	return nil
}

// firstNaN returns the place of the first code that is not a number, or -1.
func firstNaN(codes []byte) int {
	at := 0
	for ; at+8 <= len(codes); at += 8 { // eight at once: only 0x7f carries into the top bit
		const low, one, top = 0x7f7f7f7f7f7f7f7f, 0x0101010101010101, 0x8080808080808080
		if (binary.LittleEndian.Uint64(codes[at:])&low+one)&top != 0 {
			break
		}
	}
	for ; at < len(codes); at++ {
		if codes[at]&0x7f == 0x7f {
			return at
		}
	}
	return -1
}

// FromFP8 computes the weights of one output from its codes (K) and scales (K/128).
func FromFP8(dst []float32, codes []byte, scales []float32) {
	mustMatch("FromFP8", len(dst), len(codes), FP8Block*len(scales))
	for i := range dst {
		dst[i] = e4m3[codes[i]] * scales[i/FP8Block]
	}
}

// tileFP8Generic computes a tile with FP8 weights in plain Go.
func tileFP8Generic(dst, x []float32, codes []byte, scales []float32, t tile) {
	t.decoded(dst, x, func(p, k int) [PanelWidth]float32 {
		return fp8Row(codes[p*t.panelStride:], scales[p*t.scaleStride:], k)
	})
}

// fp8Row decodes the weights of input k of a panel.
func fp8Row(codes []byte, scales []float32, k int) (row [PanelWidth]float32) {
	codes, scales = codes[k*PanelWidth:][:PanelWidth], scales[k/FP8Block*PanelWidth:][:PanelWidth]
	for j := range PanelWidth / 2 {
		row[j] = e4m3[codes[2*j]] * scales[j]
		row[j+16] = e4m3[codes[2*j+1]] * scales[j+16]
	}
	return row
}
