package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// quantiser has what quantising a panel takes beside it.
type quantiser struct {
	w     []float32 // (k) a row
	tops  []float32 // (k/QGroup) its weights of the largest magnitudes
	by    []float64 // (k/QGroup) what its weights are divided by
	codes []byte    // (PanelWidth, k)
	rows  [][]byte  // of codes
}

var quantisers = sync.Pool{New: func() any { return &quantiser{} }}

// quantiserOf has room for rows of k weights.
func quantiserOf(k int) *quantiser {
	q, _ := quantisers.Get().(*quantiser)
	if cap(q.w) < k {
		*q = quantiser{w: make([]float32, k), tops: make([]float32, k/QGroup), by: make([]float64, k/QGroup), codes: make([]byte, PanelWidth*k)}
	}
	if len(q.w) != k || q.rows == nil {
		q.w, q.tops, q.by, q.codes = q.w[:k], q.tops[:k/QGroup], q.by[:k/QGroup], q.codes[:PanelWidth*k]
		q.rows = q.rows[:0]
		for j := range PanelWidth {
			q.rows = append(q.rows, q.codes[j*k:][:k])
		}
	}
	return q
}

func (m *Matrix) quantisePanel(panel int, f Format, row func(i int, w []float32) error) error {
	q := quantiserOf(m.K)
	defer quantisers.Put(q)
	first, size := panel*PanelWidth, m.K/QGroup*PanelWidth
	outputs, steps := min(PanelWidth, m.N-first), m.steps[panel*size:][:size]
	if outputs < PanelWidth {
		clear(steps)
	}
	for j := range outputs {
		err := row(first+j, q.w)
		if err == nil {
			err = q.quantise(j, steps[j:], f)
		}
		if err != nil {
			return &OutputError{first + j, err}
		}
	}
	codes := len(m.codes) / m.Panels()
	q.place(m.codes[panel*codes:][:codes], outputs, f)
	return nil
}

// quantise makes codes of a row, and its scales, of which one in PanelWidth is this output's.
func (q *quantiser) quantise(j int, steps []uint16, f Format) error {
	largestOf(q.tops, q.w)
	for g, top := range q.tops {
		if math.Float32bits(top)&^(1<<31) > math.Float32bits(largestQ) {
			return fmt.Errorf("input %d: a weight is %v: it must be a number of at most 2^100", g*QGroup, top)
		}
		step := stepOf(top, f)
		steps[g*PanelWidth] = storedStep(step, f)
		if q.by[g] = float64(widened(step)); step == 0 {
			q.by[g] = math.Inf(1)
		}
	}
	least, most := int32(-127), int32(127)
	if f.nibbles() {
		least, most = -8, 7
	}
	codesOf(q.rows[j], q.w, q.by, least, most)
	return nil
}

// largestOfGeneric finds the weight of the largest magnitude of each group, with its sign; what is no number is the largest.
func largestOfGeneric(tops, w []float32) {
	for g := range tops {
		most := uint32(0) // of magnitudes, whose bits are in their order
		tops[g] = w[g*QGroup]
		for _, v := range w[g*QGroup:][:QGroup] {
			if a := math.Float32bits(v) &^ (1 << 31); a > most {
				tops[g], most = v, a
			}
		}
	}
}

// codesOfGeneric rounds groups to what they are divided by, ties to even.
func codesOfGeneric(codes []byte, w []float32, by []float64, least, most int32) {
	const ones = 3 << 51 // a float64 of its size has no bits below 1, so that adding it rounds, and its low bits are the sum
	for g, by := range by {
		to := codes[g*QGroup:][:QGroup]
		for i, v := range w[g*QGroup:][:QGroup] {
			code := int32(math.Float64bits(float64(v)/by + ones))
			to[i] = byte(max(least, min(most, code)))
		}
	}
}

// place writes the codes of a panel's outputs. Q4 lies as MXFP4 does. Q8 and W8A8 have four inputs of an output in a word, as W4A8 has with half of each
// byte, and all of these have the least code at zero.
func (q *quantiser) place(panel []byte, outputs int, f Format) {
	switch f {
	case Q8, W8A8:
		flip(q.codes[:outputs*len(q.w)], 0x80)
		packWords(panel, q.rows[:outputs], PanelWidth)
	default:
		q.joinNibbles(outputs, f)
		packWords(panel, q.rows[:PanelWidth/2], PanelWidth/2)
	}
}

// joinNibbles puts two outputs into each of the first half's rows.
func (q *quantiser) joinNibbles(outputs int, f Format) {
	const low, eights = 0x0f0f0f0f0f0f0f0f, 0x0808080808080808
	k, sign := len(q.w), uint64(0)
	clear(q.codes[outputs*k:])
	if f == W4A8 {
		flip(q.codes[outputs*k:], 8)
		sign = eights | eights<<4
	}
	for j, to := range q.rows[:PanelWidth/2] {
		from := q.rows[j+PanelWidth/2]
		for i := 0; i+8 <= len(to); i += 8 {
			both := binary.LittleEndian.Uint64(to[i:])&low | binary.LittleEndian.Uint64(from[i:])&low<<4
			binary.LittleEndian.PutUint64(to[i:], both^sign)
		}
	}
}

// flip changes bits of each byte, of which there are a multiple of eight.
func flip(b []byte, bits byte) {
	mask := uint64(bits) * 0x0101010101010101
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^mask)
	}
}
