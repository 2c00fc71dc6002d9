package cpu

import (
	"encoding/binary"
	"fmt"
)

// PanelWidth is the number of outputs in a panel of a Matrix.
const PanelWidth = 32

// Matrix holds weights (N, K) packed in panels of PanelWidth outputs, padded
// with zeros. A panel is laid out (K, PanelWidth), so that one step of the
// chain over k reads consecutive memory. It is immutable and safe to share.
type Matrix struct {
	N, K int // outputs, inputs

	// One of them is set. In bf16, a 32-bit word holds outputs j (low half)
	// and j+16 (high half): one load and a shift or a mask give 16 floats. In W16A16 see Packer.Pairs.
	bf    []uint16
	f32   []float32
	codes []byte // with one of the scales below

	exps   []byte    // MXFP4: (panels, K/32, PanelWidth), each one more than in E8M0
	scales []float32 // FP8: (panels, K/128, PanelWidth)
	steps  []uint16  // Q8, Q4, W8A8 and W4A8: (panels, K/32, PanelWidth), in bf16
	rounds bool      // W8A8, W4A8, W16A16 and codings that say so: rows are rounded, too
	coded  *coded    // the codes are as a Coding says

	stack []*Matrix // instead of all that: see Stack
}

// PackColumns packs src, row-major (k, n): the transpose of what PackF32 takes.
func PackColumns(src []float32, n, k int) *Matrix {
	mustHold("PackColumns", len(src), n, k, 1)
	m := &Matrix{N: n, K: k}
	m.f32 = aligned[float32](m.Panels() * k * PanelWidth)
	for p := range m.Panels() {
		from, to := p*PanelWidth, min(n, (p+1)*PanelWidth)
		for row := range k {
			copy(m.f32[(p*k+row)*PanelWidth:], src[row*n+from:row*n+to])
		}
	}
	return m
}

// PackBF16Columns packs src, row-major (k, n) little-endian bf16: the transpose
// of what PackBF16 takes.
func PackBF16Columns(src []byte, n, k int) *Matrix {
	mustHold("PackBF16Columns", len(src), n, k, 2)
	m := &Matrix{N: n, K: k}
	m.bf = aligned[uint16](m.Panels() * k * PanelWidth)
	for p := range m.Panels() {
		from, to := p*PanelWidth, min(n, (p+1)*PanelWidth)
		for row := range k {
			for j := from; j < to; j++ {
				m.bf[interleaved((p*k+row)*PanelWidth+j-from)] = binary.LittleEndian.Uint16(src[(row*n+j)*2:])
			}
		}
	}
	return m
}

func mustHold(what string, got, n, k, size int) {
	if n < 0 || k < 0 || got != n*k*size {
		panic(fmt.Sprintf("cpu.%s: %d values given for a (%d, %d) matrix", what, got, n, k))
	}
}

// interleaved returns the place in a bf16 panel of what sits at the place at in an f32 panel.
func interleaved(at int) int {
	j := at % PanelWidth
	return at - j + j%16*2 + j/16
}

// Panels returns the number of panels, the last one perhaps padded.
func (m *Matrix) Panels() int { return (m.N + PanelWidth - 1) / PanelWidth }

// Bytes returns the memory that the weights take.
func (m *Matrix) Bytes() (n int64) {
	for _, part := range m.stack {
		n += part.Bytes()
	}
	if m.coded != nil {
		n += int64(len(m.coded.tops))*2 + int64(len(m.coded.subs))
	}
	return n + int64(len(m.bf)+len(m.steps))*2 + int64(len(m.f32)+len(m.scales))*4 + int64(len(m.codes)+len(m.exps))
}

// Format is how a Matrix holds its weights.
type Format uint8

// The formats.
const (
	F32 Format = iota
	BF16
	MXFP4
	FP8
	Q8
	Q4
	W8A8   // Q8 for rounded rows
	W4A8   // Q4 for rounded rows
	W16A16 // BF16 for rows rounded to bf16
	Coded  // as a Coding says

	byHalves // for kernels: W8A8 where half as many inputs share a scale
)

// PackedBytes returns what Bytes of a packed (n, k) matrix will be.
func PackedBytes(n, k int, f Format) int64 {
	width := int64((&Matrix{N: n}).Panels()) * PanelWidth
	switch f {
	case BF16:
		return width * int64(k) * 2
	case W16A16:
		return width * 4 * int64(pairsOf(k))
	case MXFP4:
		return width * (int64(k)/2 + int64(k)/MXBlock)
	case FP8:
		return width * (int64(k) + 4*int64(FP8Scales(k)))
	case Q8, W8A8:
		return width * (int64(k) + 2*int64(k)/QGroup)
	case Q4, W4A8:
		return width * (int64(k)/2 + 2*int64(k)/QGroup)
	}
	return width * int64(k) * 4
}
