package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// MXBlock consecutive inputs of an output share one MXFP4 scale.
const MXBlock = 32

// e2m1 are the values of the 4-bit codes: sign, two bits of exponent, one of
// mantissa (OCP Microscaling Formats 1.0, table 5). Code 8, minus zero, counts as zero.
var e2m1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// maxE8M0 is the greatest scale, 2^125, with which every code is a finite float32.
const maxE8M0 = 252

// MXFP4 packs blocks, row-major (n, k/32, 16), and scales (n, k/32), which
// CheckE8M0 has passed. A byte holds two codes, the first input's in its low half;
// a scale e is 2^(e-127). The weights stay packed: 4.25 bits each.
func (p Packer) MXFP4(blocks, scales []byte, n, k int) *Matrix {
	mustHold("MXFP4", 2*len(blocks), n, k, 1)
	mustHold("MXFP4", MXBlock*len(scales), n, k, 1)
	m, rows := &Matrix{N: n, K: k}, stack(k/2, blocks)
	m.codes = take[byte](p.Space, m.Panels()*m.mxPanel())
	m.exps = take[byte](p.Space, m.Panels()*k/MXBlock*PanelWidth)
	p.each(m.Panels(), m.mxPanel(), func(panel int) {
		codes, exps := m.codes[panel*m.mxPanel():][:m.mxPanel()], m.exps[panel*k/MXBlock*PanelWidth:][:k/MXBlock*PanelWidth]
		p.panel(rows, panel, func(rows [][]byte) { packHalfBytes(codes, rows, 0, 0, dropMinusZeros) })
		clear(exps)
		for row := panel * PanelWidth; row < min(n, (panel+1)*PanelWidth); row++ {
			for b, e := range scales[row*k/MXBlock : (row+1)*k/MXBlock] {
				exps[b*PanelWidth+row%PanelWidth] = e + 1
			}
		}
	})
	return m
}

// CheckE8M0 refuses scales that are not a number, or too large for float32.
func CheckE8M0(scales []byte) error {
	if i := slices.IndexFunc(scales, func(e byte) bool { return e > maxE8M0 }); i >= 0 {
		return fmt.Errorf("MXFP4 scale %d is %d: 255 is not a number, and more than %d is beyond float32", i, scales[i], maxE8M0)
	}
	return nil
}

// dropMinusZeros makes zeros of codes that are minus zero, of which a multiple of 16 lie two in a byte, so that all kernels
// may.
func dropMinusZeros(codes []byte) {
	const ones = 0x1111111111111111
	for ; len(codes) >= 8; codes = codes[8:] {
		x := binary.LittleEndian.Uint64(codes)
		other := x ^ 8*ones // not zero where a code is another one
		other |= other >> 2
		binary.LittleEndian.PutUint64(codes, x&((other|other>>1)&ones*15))
	}
}

func (m *Matrix) mxPanel() int { return m.K * PanelWidth / 2 }

// FromMXFP4 computes the weights of blocks, 16 bytes for each of the scales; it is exact.
func FromMXFP4(dst []float32, blocks, scales []byte) {
	mustMatch("FromMXFP4", len(dst), 2*len(blocks), MXBlock*len(scales))
	for i := range dst {
		dst[i] = e2m1[blocks[i/2]>>(i%2*4)&15] * pow2(scales[i/MXBlock])
	}
}

// pow2 is 2^(e-127), also for 0, where it is not normal.
func pow2(e byte) float32 { return 0.5 * halvedScale(e+1) }

// halvedScale is 2^(e-127) for e > 0. A Matrix keeps e+1, so that kernels can
// shift it into place, and has the codes' values halved instead.
func halvedScale(e byte) float32 { return math.Float32frombits(uint32(e) << 23) }

// tileMXFP4Generic computes a tile with MXFP4 weights in plain Go.
func tileMXFP4Generic(dst, x []float32, codes, exps []byte, t tile) {
	t.decoded(dst, x, func(p, k int) [PanelWidth]float32 {
		return mxRow(codes[p*t.panelStride:], exps[p*t.scaleStride:], k)
	})
}

// mxRow decodes the weights of input k of a panel.
func mxRow(codes, exps []byte, k int) (row [PanelWidth]float32) {
	scales := exps[k/MXBlock*PanelWidth:][:PanelWidth]
	words := codes[k/4*64:][:64]
	for j := range PanelWidth / 2 {
		c := binary.LittleEndian.Uint32(words[4*j:]) >> (k % 4 * 8)
		row[j] = 0.5 * e2m1[c&15] * halvedScale(scales[j])
		row[j+16] = 0.5 * e2m1[c>>4&15] * halvedScale(scales[j+16])
	}
	return row
}
