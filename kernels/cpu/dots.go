package cpu

import (
	"encoding/binary"
	"math"
)

// dotFormat returns which kernels multiply the codes with rounded rows.
func (m *Matrix) dotFormat() Format {
	switch {
	case m.coded == nil:
		return m.quantised()
	case m.coded.Bits == 4:
		return W4A8
	case m.coded.Group < QGroup:
		return byHalves
	}
	return W8A8
}

// offsets reports whether weights are more than a code times a scale, for rounded rows.
func (m *Matrix) offsets() bool {
	return m.coded != nil && m.coded.Kind != Steps && m.coded.Kind != SubSteps
}

// dotZero returns what is subtracted of a stored code, before the product with a row's: codes of 4 bits are as they are where weights have
// offsets.
func (m *Matrix) dotZero() int32 {
	switch {
	case m.dotFormat() == W8A8:
		return 128
	case m.dotFormat() == byHalves:
		return 32
	case m.offsets():
		return 0
	}
	return 8
}

// dotScale returns scale and offset of input k and output j of a panel. The sums of codes of 4 bits are times 16, and
// their scales are over 16.
func (m *Matrix) dotScale(p, k, j int) (scale, offset float32) {
	if m.coded == nil {
		return widened(m.steps[(p*m.K+k)/QGroup*PanelWidth+j]), 0
	}
	scale, offset = m.scaleAt(p, k, j)
	if m.coded.Bits == 4 {
		scale /= 16
	}
	return scale, offset
}

// tileDotsGeneric computes a tile from panel p0 on in plain Go; t.ldX counts bytes. For each group of inputs in ascending
// order acc = fma(Σ code·code, weight's scale · row's scale, acc), and then, where weights have offsets,
// acc = fma(row's sum, offset, acc).
func tileDotsGeneric(dst []float32, x []byte, m *Matrix, p0 int, t tile) {
	group := QGroup
	if m.dotFormat() == byHalves {
		group /= 2
	}
	for row := range t.rows {
		for p := range t.panels {
			out := dst[row*t.ldDst+p*PanelWidth:][:PanelWidth]
			clear(out)
			for k := 0; k < t.k; k += group {
				m.addGroup(out, x[row*t.ldX+k/QGroup*roundedGroup:], p0+p, k, group)
			}
		}
	}
}

// addGroup adds inputs of a group, from k on; x is their QGroup of a row.
func (m *Matrix) addGroup(out []float32, x []byte, p, k, group int) {
	step, rowSum := rowFloat(x[QGroup:]), rowFloat(x[QGroup+4*4:])
	for j := range out {
		sum := int32(0)
		for i := range group {
			sum += int32(int8(x[k%QGroup+i])) * (m.storedCode(p, k+i, j) - m.dotZero())
		}
		if m.dotFormat() == W4A8 {
			sum *= 16
		}
		scale, offset := m.dotScale(p, k, j)
		out[j] = fma32(float32(sum), scale*step, out[j])
		if m.offsets() {
			out[j] = fma32(rowSum, offset, out[j])
		}
	}
}

func (m *Matrix) storedCode(p, k, j int) int32 {
	codes := m.codes[p*len(m.codes)/m.Panels():]
	switch m.dotFormat() {
	case W4A8:
		return int32(codes[k/4*64+j%16*4+k%4] >> (j / 16 * 4) & 15)
	case byHalves:
		low, high := m.codes[m.sixAt(p, k, j)]>>(j/16*4)&15, m.codes[m.crumbAt(p, k, j)]>>(k/4%4*2)&3
		return int32(low) | int32(high)<<4
	}
	return int32(codes[wordAt(k, j)])
}

func rowFloat(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
