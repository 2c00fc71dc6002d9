package cpu

import "fmt"

// rowsAtOnce queries of one KV head keep a kernel's registers busy.
const rowsAtOnce = 12

// AttendsRows returns how many consecutive positions of a sequence AttendRows gains from; 1: none.
func (h Heads) AttendsRows() int {
	if h.Dim%PanelWidth != 0 {
		return 1
	}
	return max(1, rowsAtOnce/h.Group)
}

// AttendRowsScratch returns the length of the scratch that AttendRows needs.
func AttendRowsScratch(h Heads, rows, end int) int {
	positions := (end + rows - 1 + PagePositions - 1) / PagePositions * PagePositions
	return rows*h.Group*(positions+2*h.Dim+1) + positions
}

// AttendRows is attention of rows that follow each other: row r, whose queries (KV, Group, Dim) are at
// q[r·ldQ], sees the positions [0, end+r), and its sums go to out[r·ldOut]. Dim is a multiple of 32. The
// bits are those of AttendKept: rows share the reading of pages that all of them see whole, and take what
// remains one by one.
func AttendRows(f KVFormat, out []float32, ldOut int, q []float32, ldQ, rows int, h Heads, pages [][]float32, end int, scale float32, sinks, scratch []float32) {
	width, last := h.KV*h.Group*h.Dim, (end+rows-2)/PagePositions
	if rows < 1 || end < 1 || h.KV < 1 || h.Group < 1 || h.Dim < 1 || h.Dim%PanelWidth != 0 || len(pages) <= last ||
		len(out) < (rows-1)*ldOut+width || len(q) < (rows-1)*ldQ+width || len(scratch) < AttendRowsScratch(h, rows, end) {
		panic(fmt.Sprintf("cpu.AttendRows: out %d (stride %d), q %d (stride %d), %d rows, %+v, %d pages, end %d, scratch %d",
			len(out), ldOut, len(q), ldQ, rows, h, len(pages), end, len(scratch)))
	}
	if sinks != nil {
		mustMatch("AttendRows", h.KV*h.Group, len(sinks))
	}
	b := attentionRows{rows: rows, end: end, n: rows * h.Group}
	b.attention = attention{g: h.Group, c: h.Dim, last: last, ld: (last + 1) * PagePositions, pages: pages, format: f,
		valuesAt: f.Words(h.Dim), step: h.Dim, heads: 1}
	b.q, scratch = scratch[:b.n*h.Dim], scratch[b.n*h.Dim:]
	b.out, scratch = scratch[:b.n*h.Dim], scratch[b.n*h.Dim:]
	b.scores, scratch = scratch[:b.n*b.ld], scratch[b.n*b.ld:]
	b.sums, b.scales = scratch[:b.n], scratch[b.n:]
	group := h.Group * h.Dim
	for ; b.head < h.KV; b.head++ {
		for r := range rows {
			copy(b.q[r*group:(r+1)*group], q[r*ldQ+b.head*group:])
		}
		if sinks != nil {
			b.attention.sinks = sinks[b.head*h.Group:]
		}
		b.run(scale)
		for r := range rows {
			copy(out[r*ldOut+b.head*group:][:group], b.out[r*group:(r+1)*group])
		}
	}
}

// attentionRows is attention of n queries, Group of each row, to one KV head.
type attentionRows struct {
	attention
	rows, n int
	end     int       // of the first row
	q, out  []float32 // (n, C)
}

func (b *attentionRows) run(scale float32) {
	t := tile{ldDst: b.ld, ldX: b.c, rows: b.n, k: b.c, step: PagePositions, panels: 1}
	for p := 0; p <= b.last; p++ {
		keys := b.keys(p)
		if p < b.last {
			t.ahead = distance(keys, b.keys(p+1))
		}
		b.tile(b.scores[p*PagePositions:], b.q, keys, t)
	}
	b.rescale(b.n, 0)
	for r := range b.rows {
		one := b.alone(r)
		for i := range b.g {
			one.weigh(i, scale)
		}
	}
	b.rescale(b.n, b.valuesAt)
	b.mix()
	for i := range b.n {
		Scale(b.out[i*b.c:(i+1)*b.c], 1/b.sums[i])
	}
}

// alone returns the attention of row r alone.
func (b *attentionRows) alone(r int) attention {
	a := b.attention
	a.end, a.last = b.end+r, (b.end+r-1)/PagePositions
	a.scores, a.sums = b.scores[r*b.g*b.ld:], b.sums[r*b.g:]
	return a
}

// mix takes the pages that all rows see whole together.
func (b *attentionRows) mix() {
	whole := b.end / PagePositions
	t := tile{ldDst: b.c, ldX: b.ld, rows: b.n, k: PagePositions, step: b.step, panels: b.c / PanelWidth, panelStride: PanelWidth}
	for p := range whole {
		values := b.values(p)
		if t.add = p > 0; p < b.last {
			t.ahead = distance(values, b.values(p+1))
		}
		b.tile(b.out, b.scores[p*PagePositions:], values, t)
	}
	for r := range b.rows {
		one := b.alone(r)
		one.first = whole
		one.mixFrom(b.out[r*b.g*b.c:], one.scores[whole*PagePositions:], whole > 0)
	}
}

// tile computes a tile with one head's keys or values.
func (b *attentionRows) tile(dst, x, w []float32, t tile) {
	switch b.format {
	case KVBF16:
		tileBF16(dst, x, halves(w), t)
	case KVInt8:
		tileCodes(dst, x, bytesIn(w), t)
	default:
		tileF32(dst, x, w, t)
	}
}
