package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
)

// QGroup consecutive inputs of an output share one scale in Q8 and Q4.
const QGroup = 32

// Weights above largestQ are refused; a group without one above smallestQ is zero. In between, a scale, and its product
// with a code, are exact float32 numbers. Kernels rest on it that these scales are among those which checkScale lets pass.
const (
	largestQ  = 0x1p100
	smallestQ = 0x1p-80
)

// ErrGroups is of inputs that groups do not divide.
var ErrGroups = fmt.Errorf("no multiple of %d, which share a scale", QGroup)

// CheckGroups refuses them.
func CheckGroups(k int) error {
	if k%QGroup != 0 {
		return fmt.Errorf("%d inputs are %w", k, ErrGroups)
	}
	return nil
}

// Quantise makes an (n, k) matrix in Q8, Q4, W8A8 or W4A8, of what row fills in for each output. A
// weight becomes a whole code, of -127 to 127 or -8 to 7, times its group's scale in
// bf16: 8.5 or 4.5 bits. CheckGroups has passed k. Errors are OutputErrors. Calls of row may overlap.
func (p Packer) Quantise(n, k int, f Format, row func(i int, w []float32) error) (*Matrix, error) {
	if k%QGroup != 0 || !f.Grouped() {
		panic(fmt.Sprintf("cpu.Packer.Quantise: (%d, %d) in format %d", n, k, f))
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

func (e *OutputError) Error() string { return fmt.Sprintf("output %d: %v", e.Output, e.Err) }

func (e *OutputError) Unwrap() error { return e.Err }

// stepOf returns the scale of a group, in bf16. In Q4 the weight that is farthest from zero
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

func widened(bf uint16) float32 { return math.Float32frombits(uint32(bf) << 16) }

// quantised returns which of the grouped formats the matrix holds.
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

// storedStep returns a scale as it is stored. W4A8's kernels multiply with 16 times its codes, so
// it has a sixteenth of the scale, which is exact.
func storedStep(step uint16, f Format) uint16 {
	if f == W4A8 && step&^(1<<15) != 0 {
		return step - 4<<7
	}
	return step
}

// wordAt returns the place in a panel of Q8 or W8A8 of input k and output j.
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

// qWeight returns the weight of input k and output j of a panel.
func qWeight(codes []byte, steps []uint16, f Format, k, j int) float32 {
	w := float32(qCode(codes, f, k, j)) * widened(steps[k/QGroup*PanelWidth+j])
	if f == W4A8 {
		w *= 16
	}
	return w
}

// qCode returns the code of input k and output j of a panel.
func qCode(codes []byte, f Format, k, j int) int8 {
	switch f {
	case Q8, W8A8:
		return int8(codes[wordAt(k, j)] ^ 128)
	}
	word := binary.LittleEndian.Uint32(codes[k/4*64+j%16*4:])
	code := int8(word>>(k%4*8+j/16*4)<<4) >> 4
	if f == W4A8 {
		code ^= -8
	}
	return code
}
