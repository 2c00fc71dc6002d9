package cpu

import (
	"encoding/binary"
	"fmt"
)

// Groups are weights (N, K) in Q8 or Q4 as files have them, row-major: codes with 128 (or 8) added, a
// byte each, or two in a byte with the first in its low half; and a scale in bf16 for each QGroup inputs.
type Groups struct{ Codes, Scales []byte }

// GroupBytes returns those of a row of k inputs, a multiple of QGroup, in Q8 or Q4.
func GroupBytes(k int, f Format) (codes, scales int) {
	if f.nibbles() {
		return k / 2, k / QGroup * 2
	}
	return k, k / QGroup * 2
}

// QuantiseRows fills g with rows of k weights, in Q8 or Q4, of what row fills in for each: the very codes
// and scales that Quantise makes. Errors are OutputErrors.
func (g Groups) QuantiseRows(k int, f Format, row func(i int, w []float32) error) error {
	codes, scales := GroupBytes(k, f)
	rows := len(g.Codes) / max(1, codes)
	if k%QGroup != 0 || f != Q8 && f != Q4 || len(g.Codes) != rows*codes || len(g.Scales) != rows*scales {
		panic(fmt.Sprintf("cpu.Groups: %d bytes of codes and %d of scales for rows of %d in format %d", len(g.Codes), len(g.Scales), k, f))
	}
	q, steps := quantiserOf(k), make([]uint16, k/QGroup*PanelWidth)
	defer quantisers.Put(q)
	for i := range rows {
		err := row(i, q.w)
		if err == nil {
			err = q.quantise(0, steps, f)
		}
		if err != nil {
			return &OutputError{i, err}
		}
		for group := range k / QGroup {
			binary.LittleEndian.PutUint16(g.Scales[i*scales+2*group:], steps[group*PanelWidth])
		}
		storeCodes(g.Codes[i*codes:][:codes], q.rows[0], f)
	}
	return nil
}

// storeCodes writes a row of codes in two's complement as files have them.
func storeCodes(dst, codes []byte, f Format) {
	if f == Q8 {
		copy(dst, codes)
		flip(dst, 0x80)
		return
	}
	for i := range dst {
		dst[i] = codes[2*i]&15 | codes[2*i+1]<<4
	}
	flip(dst, 0x88)
}

// FloatsTo computes the weights of rows of k inputs in Q8 or Q4.
func (g Groups) FloatsTo(out []float32, k int, f Format) error {
	for i := range len(out) / QGroup {
		bf := binary.LittleEndian.Uint16(g.Scales[2*i:])
		if err := checkScale(bf); err != nil {
			return &OutputError{i * QGroup / k, err}
		}
		scale, to := widened(bf), out[i*QGroup:][:QGroup]
		for j := range to {
			to[j] = float32(g.code(i*QGroup+j, f)) * scale
		}
	}
	return nil
}

// code is that of a weight.
func (g Groups) code(at int, f Format) int {
	if f.nibbles() {
		return int(g.Codes[at/2]>>(at%2*4)&15) - 8
	}
	return int(g.Codes[at]) - 128
}

// Groups packs weights of k inputs that are in groups already, one below the other, in Q8, Q4, W8A8 or W4A8: the very
// matrix that Quantise makes of what they were made of. CheckGroups has passed k. Errors are OutputErrors.
func (p Packer) Groups(k int, f Format, parts ...Groups) (*Matrix, error) {
	codes, scales := GroupBytes(k, f)
	var all, allScales [][]byte
	for _, part := range parts {
		all, allScales = append(all, part.Codes), append(allScales, part.Scales)
	}
	rows, scaleRows := stack(codes, all...), stack(scales, allScales...)
	if k%QGroup != 0 || !f.Grouped() || rows.n != scaleRows.n {
		panic(fmt.Sprintf("cpu.Groups: %d rows of codes and %d of scales, of %d inputs in format %d", rows.n, scaleRows.n, k, f))
	}
	m := &Matrix{N: rows.n, K: k, rounds: f.rounds()}
	m.steps = take[uint16](p.Space, m.Panels()*k/QGroup*PanelWidth)
	m.codes = take[byte](p.Space, int(PackedBytes(m.N, k, f))-2*len(m.steps))
	errs := make([]error, m.Panels())
	p.each(m.Panels(), codes*PanelWidth, func(i int) {
		size := len(m.codes) / m.Panels()
		p.panel(rows, i, func(rows [][]byte) { packGroupCodes(m.codes[i*size:][:size], rows, f) })
		p.panel(scaleRows, i, func(rows [][]byte) { errs[i] = m.packScales(i, rows, f) })
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// packGroupCodes writes a panel's, as quantiser.place does.
func packGroupCodes(panel []byte, rows [][]byte, f Format) {
	switch f {
	case Q8, W8A8:
		packWords(panel, rows, PanelWidth)
	case Q4:
		packHalfBytes(panel, rows, 0x88, 0x88, nil)
	default:
		packHalfBytes(panel, rows, 0, 0, nil)
	}
}

// packHalfBytes packs rows of codes that lie two in a byte, the first one's in its low half. Four inputs make 64 bytes of a
// panel: 16 words, of which word j holds the codes of outputs j and j+16, input by input from the low end: one shift brings
// any of them to the bottom of its word. Bits of each byte are changed; where there is no output, they were none before.
// A row of two outputs is changed further before it is packed.
func packHalfBytes(panel []byte, rows [][]byte, none, bits byte, further func(codes []byte)) {
	if further == nil && packNibbles(panel, rows, bits) {
		return
	}
	k := 2 * len(rows[0])
	q := quantiserOf(k)
	defer quantisers.Put(q)
	row := func(j int) []byte {
		if j < len(rows) {
			return rows[j]
		}
		empty := q.rows[PanelWidth-1][:k/2]
		for i := range empty {
			empty[i] = none
		}
		return empty
	}
	for j, to := range q.rows[:PanelWidth/2] {
		joinHalves(to, row(j), row(j+PanelWidth/2), bits)
		if further != nil {
			further(to)
		}
	}
	packWords(panel, q.rows[:PanelWidth/2], PanelWidth/2)
}

// joinHalvesGeneric gives each of the halves of bytes of a and b a byte of its own, b's upper, and changes bits of it. Of
// both there is a multiple of 16.
func joinHalvesGeneric(dst, a, b []byte, bits byte) {
	mask := uint64(bits) * 0x0101010101010101
	for ; len(a) >= 4 && len(b) >= 4 && len(dst) >= 8; a, b, dst = a[4:], b[4:], dst[8:] {
		binary.LittleEndian.PutUint64(dst, halvesApart(binary.LittleEndian.Uint32(a))|halvesApart(binary.LittleEndian.Uint32(b))<<4^mask)
	}
}

// halvesApart gives each of eight halves of bytes a byte.
func halvesApart(x uint32) uint64 {
	v := uint64(x)
	v = (v | v<<16) & 0x0000ffff_0000ffff
	v = (v | v<<8) & 0x00ff00ff_00ff00ff
	return (v | v<<4) & 0x0f0f0f0f_0f0f0f0f
}
