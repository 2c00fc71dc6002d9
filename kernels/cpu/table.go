package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Table holds outputs as a Matrix does, and lets one be written without the others: a
// store of vectors that a query is multiplied with. Outputs that were not written are
// zero. A Table must not be read while it is written.
type Table struct {
	m Matrix
	f Format
}

// NewTable returns a table without outputs, of k inputs each, in F32, BF16 or FP8. In FP8 a
// block's scale is its largest magnitude over 448.
func NewTable(k int, f Format) *Table {
	if k < 1 || f == MXFP4 || f > FP8 {
		panic(fmt.Sprintf("cpu.NewTable: %d inputs in format %d", k, f))
	}
	return &Table{m: Matrix{K: k}, f: f}
}

// Matrix returns the table's outputs, for MatMul. It is good until the table grows.
func (t *Table) Matrix() *Matrix { return &t.m }

// Grow makes room for n outputs at least: whole panels.
func (t *Table) Grow(n int) {
	panels := (n + PanelWidth - 1) / PanelWidth
	if panels <= t.m.Panels() {
		return
	}
	size := panels * PanelWidth
	switch t.f {
	case F32:
		t.m.f32 = grown(t.m.f32, size*t.m.K)
	case BF16:
		t.m.bf = grown(t.m.bf, size*t.m.K)
	default:
		t.m.codes = grown(t.m.codes, size*t.m.K)
		t.m.scales = grown(t.m.scales, size*FP8Scales(t.m.K))
	}
	t.m.N = size
}

// grown is s with zeros up to n values.
func grown[T byte | uint16 | float32](s []T, n int) []T {
	all := aligned[T](n)
	copy(all, s)
	return all
}

// RowBytes returns the length of what AppendRow appends.
func (t *Table) RowBytes() int {
	switch t.f {
	case F32:
		return 4 * t.m.K
	case BF16:
		return 2 * t.m.K
	}
	return t.m.K + 4*FP8Scales(t.m.K)
}

// Encode appends row (K) as the table holds it. Finite values stay finite: what is
// beyond a format becomes its largest.
func (t *Table) Encode(b []byte, row []float32) []byte {
	mustMatch("Table.Encode", t.m.K, len(row))
	switch t.f {
	case F32:
		for _, v := range row {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	case BF16:
		for _, v := range row {
			b = binary.LittleEndian.AppendUint16(b, finiteBF16(v))
		}
		return b
	}
	return encodeFP8(b, row)
}

// finiteBF16 is v as bf16; a finite one does not become infinite.
func finiteBF16(v float32) uint16 {
	bits := bf16Bits(v)
	if bits&0x7fff == 0x7f80 && !math.IsInf(float64(v), 0) {
		bits--
	}
	return bits
}

// Decode fills row (K) with what Encode made of it.
func (t *Table) Decode(row []float32, b []byte) {
	mustMatch("Table.Decode", t.RowBytes(), len(b))
	row = row[:t.m.K]
	switch t.f {
	case F32:
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case BF16:
		FromBF16(row, b[:2*t.m.K])
	default:
		for i := range row {
			scale := binary.LittleEndian.Uint32(b[t.m.K+i/FP8Block*4:])
			row[i] = e4m3[b[i]] * math.Float32frombits(scale)
		}
	}
}

// SetRow writes output n, as Encode made it.
func (t *Table) SetRow(n int, b []byte) {
	t.mustHave(n)
	mustMatch("Table.SetRow", t.RowBytes(), len(b))
	k, at := t.m.K, n/PanelWidth*t.m.K*PanelWidth+n%PanelWidth
	switch t.f {
	case F32:
		for i := range k {
			t.m.f32[at+i*PanelWidth] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case BF16:
		for i, at := 0, interleaved(at); i < k; i++ {
			t.m.bf[at+i*PanelWidth] = binary.LittleEndian.Uint16(b[2*i:])
		}
	default:
		for i, at := 0, interleaved(at); i < k; i++ {
			t.m.codes[at+i*PanelWidth] = b[i]
		}
		for i := range FP8Scales(k) {
			t.m.scales[t.scaleAt(n, i)] = math.Float32frombits(binary.LittleEndian.Uint32(b[k+4*i:]))
		}
	}
}

// AppendRow appends output n as Encode made it.
func (t *Table) AppendRow(b []byte, n int) []byte {
	t.mustHave(n)
	k, at := t.m.K, n/PanelWidth*t.m.K*PanelWidth+n%PanelWidth
	switch t.f {
	case F32:
		for i := range k {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(t.m.f32[at+i*PanelWidth]))
		}
	case BF16:
		for i, at := 0, interleaved(at); i < k; i++ {
			b = binary.LittleEndian.AppendUint16(b, t.m.bf[at+i*PanelWidth])
		}
	default:
		for i, at := 0, interleaved(at); i < k; i++ {
			b = append(b, t.m.codes[at+i*PanelWidth])
		}
		for i := range FP8Scales(k) {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(t.m.scales[t.scaleAt(n, i)]))
		}
	}
	return b
}

// Row fills row (K) with output n.
func (t *Table) Row(row []float32, n int) {
	t.mustHave(n)
	row = row[:t.m.K]
	at := n/PanelWidth*t.m.K*PanelWidth + n%PanelWidth
	switch t.f {
	case F32:
		for i := range row {
			row[i] = t.m.f32[at+i*PanelWidth]
		}
	case BF16:
		for i, at := 0, interleaved(at); i < len(row); i++ {
			row[i] = math.Float32frombits(uint32(t.m.bf[at+i*PanelWidth]) << 16)
		}
	default:
		for i, at := 0, interleaved(at); i < len(row); i++ {
			row[i] = e4m3[t.m.codes[at+i*PanelWidth]] * t.m.scales[t.scaleAt(n, i/FP8Block)]
		}
	}
}

// scaleAt returns the place of the scale of output n's block.
func (t *Table) scaleAt(n, block int) int {
	return (n/PanelWidth*FP8Scales(t.m.K)+block)*PanelWidth + n%PanelWidth
}

func (t *Table) mustHave(n int) {
	if n < 0 || n >= t.m.N {
		panic(fmt.Sprintf("cpu.Table: output %d of %d", n, t.m.N))
	}
}

// Chain returns what MatMul computes of one row and one output, in plain Go.
func Chain(x, w []float32) (acc float32) {
	mustMatch("Chain", len(x), len(w))
	for i, v := range x {
		acc = fma32(v, w[i], acc)
	}
	return acc
}

// largestE4M3 is the largest value of the codes, and its code.
const (
	largestE4M3     = 448
	largestE4M3Code = 0x7e
)

// encodeFP8 appends codes (K) and scales (K/128) of a row.
func encodeFP8(b []byte, row []float32) []byte {
	var scales []float32
	for from := 0; from < len(row); from += FP8Block {
		block := row[from:min(from+FP8Block, len(row))]
		top := float32(0)
		for _, v := range block {
			top = max(top, float32(math.Abs(float64(v))))
		}
		scale := min(top/largestE4M3, maxFP8Scale)
		scales = append(scales, scale)
		for _, v := range block {
			b = append(b, e4m3Code(v, scale))
		}
	}
	for _, s := range scales {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s))
	}
	return b
}

// e4m3Code returns the code whose value times scale is nearest to v, the even one of two.
func e4m3Code(v, scale float32) byte {
	if scale == 0 {
		return 0
	}
	sign := byte(math.Float32bits(v) >> 31 << 7)
	f := float32(math.Abs(float64(v))) / scale
	if f < 0x1p-6 { // below the normal codes: steps of 2^-9
		return sign | byte(math.RoundToEven(float64(f)*512))
	}
	bits := math.Float32bits(f)
	bits += 1<<19 - 1 + bits>>20&1
	return sign | byte(min(bits>>20-(127-7)<<3, largestE4M3Code))
}
