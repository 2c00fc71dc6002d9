package cpu

import (
	"fmt"
	"math"
)

// codedRow decodes the weights of input k of a panel.
func (m *Matrix) codedRow(p, k int) (row [PanelWidth]float32) {
	for j := range row {
		scale, offset := m.scaleAt(p, k, j)
		row[j] = fma32(float32(m.codeAt(p, k, j)), scale, offset)
	}
	return row
}

// scaleAt returns S and O of input k and output j of a panel.
func (m *Matrix) scaleAt(p, k, j int) (scale, offset float32) {
	c, span, group := m.coded, m.coded.span(m.K), min(m.coded.Group, m.K)
	tops := c.tops[(p*parts(m.K, span)+k/span)*c.topSize()+j:]
	scale = HalfToFloat(tops[0])
	if c.Kind == Steps {
		return scale, scale * float32(c.Zero)
	}
	if c.Kind == StepsMins {
		return scale, HalfToFloat(tops[PanelWidth])
	}
	subs := c.subs[(p*parts(m.K, group)+k/group)*c.subSize()+j:]
	sub := float32(int8(subs[0]))
	switch c.Kind {
	case StepsZeros:
		return scale, scale * sub
	case SubSteps:
		return scale * sub, 0
	}
	return scale * sub, HalfToFloat(tops[PanelWidth]) * float32(int8(subs[PanelWidth]))
}

// codeAt returns the code of input k and output j of a panel.
func (m *Matrix) codeAt(p, k, j int) int {
	if m.rounds && m.coded.Bits > 4 {
		return int(m.storedCode(p, k, j) - m.dotZero())
	}
	if m.coded.Bits > 4 {
		return int(int8(m.codes[(p*m.K+k)*PanelWidth+j]))
	}
	return int(m.codes[p*m.mxPanel()+k/4*64+j%16*4+k%4] >> (j / 16 * 4) & 15)
}

// tileCodedGeneric computes a tile from panel p0 on in plain Go.
func tileCodedGeneric(dst, x []float32, m *Matrix, p0 int, t tile) {
	t.decoded(dst, x, func(p, k int) [PanelWidth]float32 { return m.codedRow(p0+p, k) })
}

// HalfToFloat converts IEEE 754 binary16 to float32, exactly.
func HalfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac · 2^-24 is exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// Stack makes one matrix of several of the same inputs, one below the other. The outputs of each
// but the last fill panels. It rounds rows once for all, where each of them does.
func Stack(parts ...*Matrix) *Matrix {
	all := &Matrix{K: parts[0].K, stack: parts, rounds: true}
	for i, m := range parts {
		if m.K != all.K || m.rounds && m.bf != nil || m.stack != nil || i > 0 && all.N%PanelWidth != 0 {
			panic(fmt.Sprintf("cpu.Stack: part %d is (%d, %d), below %d outputs of %d inputs", i, m.N, m.K, all.N, all.K))
		}
		all.N += m.N
		all.rounds = all.rounds && m.rounds
	}
	return all
}

// eachPart calls f for the parts of a stack that have some of panels [p0, p1): with a part's first output, and its panels.
func (m *Matrix) eachPart(p0, p1 int, f func(part *Matrix, first, from, to int)) {
	first := 0
	for _, part := range m.stack {
		if from, to := max(0, p0), min(p1, part.Panels()); from < to {
			f(part, first, from, to)
		}
		p0, p1 = p0-part.Panels(), p1-part.Panels()
		first += part.N
	}
}
