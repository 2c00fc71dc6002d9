package cpu

import (
	"encoding/binary"
	"fmt"
)

// Coding is how published files store a matrix: whole codes, and for each group of neighbouring
// inputs of an output a scale S and an offset O. A weight is code·S + O, rounded once, which is
// the very float32 that a reader of the file makes. Kernels decode in registers:
//
//	kind           S              O              files
//	Steps          step           Zero·step      Q8_0, Q5_0 (0), Q4_0 (-8)
//	StepsMins      step           min            Q4_1, Q5_1
//	StepsZeros     step           zero·step      GPTQ, AWQ
//	SubSteps       step·sub       0              Q6_K
//	SubStepsMins   step·sub       min·submin     Q4_K, Q5_K
//
// Steps and mins are float16, one a group, or one for SuperInputs where groups have subs;
// zeros, subs and submins are signed bytes. Products are exact: they have at most 24 bits.
type Coding struct {
	Bits  int // of a code: 4 (0 to 15), 6 (-32 to 31) or 8 (-128 to 127)
	Group int // inputs that share a scale
	Kind  CodingKind
	Zero  int8 // of Steps
	// Rows are rounded to 8 bits before they meet the codes, which CanRound allows. Codes of 8 bits lie
	// as W8A8's then.
	Rounds bool
}

// CodingKind says what scales and offsets are made of.
type CodingKind uint8

// The kinds.
const (
	Steps CodingKind = iota
	StepsMins
	StepsZeros
	SubSteps
	SubStepsMins
)

// SuperInputs inputs share steps and mins where groups have subs.
const SuperInputs = 256

// leastGroup is the fewest inputs of a group.
const leastGroup = 16

// codedInputs are decoded with one call of a kernel at most; groups divide them, or are multiples.
const codedInputs = 512

// Check refuses matrices of k inputs that kernels do not decode.
func (c Coding) Check(k int) error {
	switch g := c.Group; {
	case c.Bits != 4 && c.Bits != 6 && c.Bits != 8 || g < leastGroup:
		return fmt.Errorf("codes of %d bits in groups of %d", c.Bits, g)
	case k%4 != 0 || g < k && codedInputs%g != 0 && g%codedInputs != 0:
		return fmt.Errorf("%d inputs in groups of %d", k, g)
	case c.twofold() && (k%SuperInputs != 0 || SuperInputs%g != 0):
		return fmt.Errorf("%d inputs are no multiple of %d", k, SuperInputs)
	}
	return nil
}

// CanRound reports whether there are kernels for rows in 8 bits of k inputs.
func (c Coding) CanRound(k int) bool {
	g := min(c.Group, k)
	switch {
	case c.Check(k) != nil || k%QGroup != 0:
		return false
	case c.Kind == SubSteps:
		return c.Bits == 6 && g == QGroup/2
	case c.Bits == 6:
		return false
	case c.Kind == SubStepsMins:
		return g == QGroup
	case c.Kind == Steps:
		return g == QGroup && c.Zero == map[int]int8{4: -8}[c.Bits]
	}
	return g%QGroup == 0 && (g == k || codedInputs%g == 0 || g%codedInputs == 0)
}

// kept returns how many bits a code takes in memory. Those of 6 take 8, but where rows are rounded.
func (c Coding) kept() int {
	if c.Bits == 6 && !c.Rounds {
		return 8
	}
	return c.Bits
}

func (c Coding) twofold() bool { return c.Kind == SubSteps || c.Kind == SubStepsMins }
func (c Coding) mins() bool    { return c.Kind == StepsMins || c.Kind == SubStepsMins }

// span returns how many of k inputs share a step.
func (c Coding) span(k int) int {
	if c.twofold() {
		return SuperInputs
	}
	return min(c.Group, k)
}

// topSize and subSize are the float16s of a panel's span, and the bytes of its group.
func (c Coding) topSize() int {
	if c.mins() {
		return 2 * PanelWidth
	}
	return PanelWidth
}

func (c Coding) subSize() int {
	switch c.Kind {
	case StepsZeros, SubSteps:
		return PanelWidth
	case SubStepsMins:
		return 2 * PanelWidth
	}
	return 0
}

func parts(k, size int) int { return (k + size - 1) / max(1, size) }

// panel returns what a panel of k inputs takes: bytes of codes, float16s, bytes of groups.
func (c Coding) panel(k int) (codes, tops, subs int) {
	return k * PanelWidth * c.kept() / 8, parts(k, c.span(k)) * c.topSize(), parts(k, min(c.Group, k)) * c.subSize()
}

// PackedBytes returns what Bytes of an (n, k) matrix will be.
func (c Coding) PackedBytes(n, k int) int64 {
	codes, tops, subs := c.panel(k)
	return int64(parts(n, PanelWidth)) * int64(codes+2*tops+subs)
}

// coded are a matrix's scales, and how they lie.
type coded struct {
	Coding
	tops []uint16 // (panels, spans, steps then mins, PanelWidth), float16
	subs []byte   // (panels, groups, subs or zeros, then submins, PanelWidth)
}

// Coded makes an (n, k) matrix of zero codes, to be filled. Coding.Check has passed k.
func (p Packer) Coded(n, k int, c Coding) *Matrix {
	if err := c.Check(k); err != nil || n < 0 || c.Rounds && !c.CanRound(k) {
		panic(fmt.Sprintf("cpu.Packer.Coded: (%d, %d) as %+v: %v", n, k, c, err))
	}
	m := &Matrix{N: n, K: k, rounds: c.Rounds, coded: &coded{Coding: c}}
	codes, tops, subs := c.panel(k)
	m.codes = take[byte](p.Space, m.Panels()*codes)
	m.coded.tops, m.coded.subs = take[uint16](p.Space, m.Panels()*tops), take[byte](p.Space, m.Panels()*subs)
	clear(m.codes)
	clear(m.coded.tops)
	clear(m.coded.subs)
	return m
}

// SetNibbles writes eight codes of 4 bits of output i and inputs k to k+7, the first one's lowest,
// where zeros are.
func (m *Matrix) SetNibbles(i, k int, codes uint32) {
	p, j := i/PanelWidth, i%PanelWidth
	at := m.codes[p*m.mxPanel()+k/4*64+j%16*4:]
	for range min(2, (m.K-k)/4) {
		word := nibblesApart(uint16(codes)) << (j / 16 * 4)
		at[0], at[1], at[2], at[3] = at[0]|byte(word), at[1]|byte(word>>8), at[2]|byte(word>>16), at[3]|byte(word>>24)
		codes >>= 16
		at = at[min(64, len(at)):]
	}
}

// nibblesApart gives each of four codes a byte.
func nibblesApart(codes uint16) uint32 {
	x := uint32(codes)
	x = (x | x<<8) & 0x00ff00ff
	return (x | x<<4) & 0x0f0f0f0f
}

// SetBytes writes codes of 6 or 8 bits of output i from input k on, a multiple of four, where zeros are.
func (m *Matrix) SetBytes(i, k int, codes []int8) {
	if m.rounds {
		for ; len(codes) >= 4; k, codes = k+4, codes[4:] {
			m.setWord(i/PanelWidth, i%PanelWidth, k, uint32(byte(codes[0]))|uint32(byte(codes[1]))<<8|uint32(byte(codes[2]))<<16|uint32(byte(codes[3]))<<24)
		}
		return
	}
	at := (i/PanelWidth*m.K+k)*PanelWidth + i%PanelWidth
	for _, c := range codes {
		m.codes[at] = byte(c)
		at += PanelWidth
	}
}

// setWord writes four codes of output j of a panel where rows are rounded. Of 8 bits they lie in a word, and 128 is added. Of 6 bits
// 32 is added; of 16 inputs the lower four bits lie as those of codes of 4 bits, and behind them the upper two,
// those of four words beside each other.
func (m *Matrix) setWord(p, j, k int, word uint32) {
	if m.coded.Bits == 8 {
		binary.LittleEndian.PutUint32(m.codes[p*m.K*PanelWidth+wordAt(k, j):], word^0x80808080)
		return
	}
	low, high := m.codes[m.sixAt(p, k, j):], m.codes[m.crumbAt(p, k, j):]
	word = word&0x3f3f3f3f ^ 0x20202020
	binary.LittleEndian.PutUint32(low, binary.LittleEndian.Uint32(low)|word&0x0f0f0f0f<<(j/16*4))
	binary.LittleEndian.PutUint32(high, binary.LittleEndian.Uint32(high)|word>>4&0x03030303<<(k/4%4*2))
}

// sixAt and crumbAt are the places of the lower and the upper bits of a code of 6 bits.
func (m *Matrix) sixAt(p, k, j int) int {
	return (p*m.K+k/16*16)*PanelWidth*6/8 + k/4%4*64 + j%16*4 + k%4
}

func (m *Matrix) crumbAt(p, k, j int) int {
	return (p*m.K+k/16*16)*PanelWidth*6/8 + 256 + j/16*64 + j%16*4 + k%4
}

// SetStep writes the step, and the min if there is one, of output i and input k: float16s that are
// finite numbers.
func (m *Matrix) SetStep(i, k int, step, least uint16) {
	at := (i/PanelWidth*parts(m.K, m.coded.span(m.K))+k/m.coded.span(m.K))*m.coded.topSize() + i%PanelWidth
	m.coded.tops[at] = step
	if m.coded.mins() {
		m.coded.tops[at+PanelWidth] = least
	}
}

// SetSub writes the sub (or zero), and the submin if there is one, of output i and input k.
func (m *Matrix) SetSub(i, k int, sub, submin int8) {
	group := min(m.coded.Group, m.K)
	at := (i/PanelWidth*parts(m.K, group)+k/group)*m.coded.subSize() + i%PanelWidth
	m.coded.subs[at] = byte(sub)
	if m.coded.Kind == SubStepsMins {
		m.coded.subs[at+PanelWidth] = byte(submin)
	}
}
