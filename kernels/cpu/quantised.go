package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
)

// QGroup consecutive inputs of an output share one scale in Q8 and Q4.
const QGroup = 32

// Weights above largestQ are refused; a group without one above smallestQ is zero. In
// between, a scale, and its product with a code, are exact float32 numbers.
const (
	largestQ  = 0x1p100
	smallestQ = 0x1p-80
)

// CheckGroups refuses inputs that groups do not divide.
func CheckGroups(k int) error {
	if k%QGroup != 0 {
		return fmt.Errorf("%d inputs are no multiple of %d, which share a scale", k, QGroup)
	}
	return nil
}

// Quantise makes an (n, k) matrix in Q8, Q4, W8A8 or W4A8, of what row fills in for each output. A
// weight becomes a whole code, of -127 to 127 or -8 to 7, times its group's scale in
// bf16: 8.5 or 4.5 bits. CheckGroups has passed k. Errors are OutputErrors.
func Quantise(n, k int, f Format, row func(i int, w []float32) error) (*Matrix, error) {
	return Packer{}.Quantise(n, k, f, row)
}

// Quantise is the function of that name; row may be called side by side.
func (p Packer) Quantise(n, k int, f Format, row func(i int, w []float32) error) (*Matrix, error) {
	if k%QGroup != 0 || !f.Grouped() {
		panic(fmt.Sprintf("cpu.Quantise: (%d, %d) in format %d", n, k, f))
	}
	m := &Matrix{N: n, K: k, rounds: f.rounds()}
	m.steps = take[uint16](p.Space, m.Panels()*k/QGroup*PanelWidth)
	m.codes = take[byte](p.Space, int(PackedBytes(n, k, f))-2*len(m.steps))
	errs := make([]error, m.Panels())
	p.each(m.Panels(), 4*k*PanelWidth, func(i int) { errs[i] = m.quantisePanel(i, f, row) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// OutputError says which output of a matrix cannot be quantised.
type OutputError struct {
	Output int
	Err    error
}

// Error names the output.
func (e *OutputError) Error() string { return fmt.Sprintf("output %d: %v", e.Output, e.Err) }

// Unwrap is what is wrong with it.
func (e *OutputError) Unwrap() error { return e.Err }

// quantisePanel writes a panel.
func (m *Matrix) quantisePanel(panel int, f Format, row func(i int, w []float32) error) error {
	size := len(m.codes) / m.Panels()
	clear(m.codes[panel*size:][:size])
	w, steps := make([]float32, m.K), m.K/QGroup*PanelWidth
	clear(m.steps[panel*steps:][:steps])
	for i := panel * PanelWidth; i < min(m.N, (panel+1)*PanelWidth); i++ {
		if err := row(i, w); err != nil {
			return &OutputError{i, err}
		}
		if err := m.setGroups(i, w, f); err != nil {
			return &OutputError{i, err}
		}
	}
	return nil
}

// setGroups writes one output.
func (m *Matrix) setGroups(i int, w []float32, f Format) error {
	var codes [QGroup]int8
	for from := 0; from < m.K; from += QGroup {
		group := (*[QGroup]float32)(w[from:])
		top, err := farthestFrom0(group)
		if err != nil {
			return fmt.Errorf("input %d: %w", from, err)
		}
		step := stepOf(top, f)
		codesOf(&codes, group, step, f)
		m.steps[m.stepAt(i, from)] = storedStep(step, f)
		m.setCodes(i, from, &codes, f)
	}
	return nil
}

// farthestFrom0 is the weight of the largest magnitude, with its sign.
func farthestFrom0(w *[QGroup]float32) (top float32, err error) {
	most, largest := uint32(0), math.Float32bits(largestQ) // of magnitudes, whose bits are in their order
	for _, v := range w {
		a := math.Float32bits(v) &^ (1 << 31)
		if a > largest {
			return 0, fmt.Errorf("a weight is %v: it must be a number of at most 2^100", v)
		}
		if a > most {
			top, most = v, a
		}
	}
	return top, nil
}

// stepOf is the scale of a group, in bf16. In Q4 the weight that is farthest from zero
// becomes -8, the code that has no other sign.
func stepOf(top float32, f Format) uint16 {
	if math.Abs(float64(top)) < smallestQ {
		return 0
	}
	if f.nibbles() {
		return bf16Bits(top / -8)
	}
	return bf16Bits(float32(math.Abs(float64(top))) / 127)
}

// codesOf rounds a group to steps, ties to even.
func codesOf(codes *[QGroup]int8, w *[QGroup]float32, step uint16, f Format) {
	if step == 0 {
		clear(codes[:])
		return
	}
	least, most := int32(-127), int32(127)
	if f.nibbles() {
		least, most = -8, 7
	}
	const ones = 3 << 51 // a float64 of its size has no bits below 1, so that adding it rounds, and its low bits are the sum
	by := float64(widened(step))
	for i, v := range w {
		code := int32(math.Float64bits(float64(v)/by + ones))
		codes[i] = int8(max(least, min(most, code)))
	}
}

func widened(bf uint16) float32 { return math.Float32frombits(uint32(bf) << 16) }

// quantised is which of the grouped formats the matrix holds.
func (m *Matrix) quantised() Format {
	f := Q4
	if len(m.codes) == m.Panels()*m.K*PanelWidth {
		f = Q8
	}
	if m.rounds {
		f += W8A8 - Q8
	}
	return f
}

// Grouped reports whether weights are codes with a scale for QGroup of them.
func (f Format) Grouped() bool { return f >= Q8 && f <= W4A8 }

func (f Format) rounds() bool  { return f >= W8A8 }
func (f Format) nibbles() bool { return f == Q4 || f == W4A8 }

// storedStep is a scale as it is stored. W4A8's kernels multiply with 16 times its codes, so
// it has a sixteenth of the scale, which is exact.
func storedStep(step uint16, f Format) uint16 {
	if f == W4A8 && step != 0 {
		return step - 4<<7
	}
	return step
}

// stepAt is the place of the scale of output i and input k.
func (m *Matrix) stepAt(i, k int) int {
	return (i/PanelWidth*m.K/QGroup+k/QGroup)*PanelWidth + i%PanelWidth
}

// setCodes writes the codes of a group of output i, from input k on, into zeros. Q8 has a panel's outputs
// one after the other, Q4 lies as MXFP4 does. W8A8 has four inputs of an output in a word,
// as W4A8 has with half of each byte, and both have the least code at zero.
func (m *Matrix) setCodes(i, k int, codes *[QGroup]int8, f Format) {
	p, j := i/PanelWidth, i%PanelWidth
	if f == Q8 {
		to := m.codes[(p*m.K+k)*PanelWidth+j:]
		for at, c := range codes {
			to[at*PanelWidth] = byte(c)
		}
		return
	}
	for at := 0; at < QGroup; at += 4 {
		four := codes[at:][:4]
		word := uint32(byte(four[0])) | uint32(byte(four[1]))<<8 | uint32(byte(four[2]))<<16 | uint32(byte(four[3]))<<24
		if f == W8A8 {
			binary.LittleEndian.PutUint32(m.codes[p*m.K*PanelWidth+wordAt(k+at, j):], word^0x80808080)
			continue
		}
		if f == W4A8 {
			word ^= 0x08080808
		}
		to := m.codes[p*m.mxPanel()+(k+at)/4*64+j%16*4:]
		binary.LittleEndian.PutUint32(to, binary.LittleEndian.Uint32(to)|word&0x0f0f0f0f<<(j/16*4))
	}
}

// wordAt is the place in a panel of W8A8 of input k and output j.
func wordAt(k, j int) int { return k/4*4*PanelWidth + 4*j + k%4 }

// DecodedRow fills dst (K) with output i of a matrix in one of the grouped formats.
func (m *Matrix) DecodedRow(dst []float32, i int) {
	mustMatch("Matrix.DecodedRow", m.K, len(dst))
	p, f := i/PanelWidth, m.quantised()
	codes, steps := m.codes[p*len(m.codes)/m.Panels():], m.steps[p*m.K/QGroup*PanelWidth:]
	for k := range dst {
		dst[k] = qWeight(codes, steps, f, k, i%PanelWidth)
	}
}

// tileQGeneric computes a tile with weights of Q8 or Q4 in plain Go.
func tileQGeneric(dst, x []float32, codes []byte, steps []uint16, f Format, t tile) {
	t.decoded(dst, x, func(p, k int) [PanelWidth]float32 {
		return qRow(codes[p*t.panelStride:], steps[p*t.scaleStride:], f, k)
	})
}

// qRow decodes the weights of input k of a panel.
func qRow(codes []byte, steps []uint16, f Format, k int) (row [PanelWidth]float32) {
	for j := range row {
		row[j] = qWeight(codes, steps, f, k, j)
	}
	return row
}

// qWeight is the weight of input k and output j of a panel.
func qWeight(codes []byte, steps []uint16, f Format, k, j int) float32 {
	w := float32(qCode(codes, f, k, j)) * widened(steps[k/QGroup*PanelWidth+j])
	if f == W4A8 {
		w *= 16
	}
	return w
}

// qCode is the code of input k and output j of a panel.
func qCode(codes []byte, f Format, k, j int) int8 {
	switch f {
	case Q8:
		return int8(codes[k*PanelWidth+j])
	case W8A8:
		return int8(codes[wordAt(k, j)] ^ 128)
	}
	word := binary.LittleEndian.Uint32(codes[k/4*64+j%16*4:])
	code := int8(word>>(k%4*8+j/16*4)<<4) >> 4
	if f == W4A8 {
		code ^= -8
	}
	return code
}
