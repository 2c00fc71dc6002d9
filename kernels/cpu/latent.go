package cpu

import "fmt"

// Latent says what attention over a latent cache has (multi-head latent
// attention, DeepSeek-V2, arXiv:2405.04434, section 2.1): Heads query heads that
// share one cached line a position. A line is Rank elements, from which keys and
// values were to be expanded, and then Rope elements of a rotated key.
//
// Nothing is expanded (section 2.1.2 calls the matrices absorbed): a query comes
// multiplied by its head's key expansion, so that its score with a line is that
// with the expanded key, and what comes out are sums of lines, for the head's
// value expansion.
//
// Pages keep lines in the Format: rounded to bf16, or as codes with a scale for each of a line's two parts.
type Latent struct {
	Heads, Rank, Rope int
	Format            KVFormat
}

// Width returns the number of elements of a line.
func (l Latent) Width() int { return l.Rank + l.Rope }

// LatentScratch returns the length of the scratch that AttendLatent needs for positions below end.
func LatentScratch(l Latent, end int) int {
	positions := (end + PagePositions - 1) / PagePositions * PagePositions
	panel := (l.Width() + PagePositions) * PanelWidth
	return l.Heads*(positions+1) + l.Heads*PanelWidth + PagePositions*PanelWidth + panel + l.opened()
}

// AttendLatent is attention of one position over the positions [0, end): out
// (H, Rank) from the queries q (H, W). pages[i] holds the lines of positions 32i to
// 32i+31, as Store wrote them. What they hold from end on has no effect. A head's
// bits do not depend on the other heads: callers may share them out. Bits are those of
// float32 lines that have the numbers that a format keeps.
func AttendLatent(out, q []float32, l Latent, pages [][]float32, end int, scale float32, scratch []float32) {
	checkLatent(out, q, l, pages, end, scratch)
	a := attention{g: l.Heads, c: l.Rank, end: end, last: (end - 1) / PagePositions}
	a.ld = (a.last + 1) * PagePositions
	a.pages, a.heads, a.step = pages, 1, l.Width()
	lines, scratch := scratch[:l.opened()], scratch[l.opened():]
	panel := (l.Width() + PagePositions) * PanelWidth
	a.take(scratch[panel:])
	if l.Format == KVF32 {
		for h := 0; h < l.Heads; h += PanelWidth {
			a.scoreLatent(q, h, min(PanelWidth, l.Heads-h), scratch[:panel])
		}
		a.finish(out, scale)
		return
	}
	a.attendOpened(out, q, l, scale, lines, scratch[:panel])
}

func checkLatent(out, q []float32, l Latent, pages [][]float32, end int, scratch []float32) {
	if l.Heads < 1 || l.Rank < 1 || l.Rope < 0 || !l.Keeps() || end < 1 || len(out) < l.Heads*l.Rank || len(q) < l.Heads*l.Width() ||
		len(pages)*PagePositions < end || len(scratch) < LatentScratch(l, end) {
		panic(fmt.Sprintf("cpu.AttendLatent: out %d, q %d, %+v, %d pages, %d positions, scratch %d",
			len(out), len(q), l, len(pages), end, len(scratch)))
	}
}

// scoreLatent fills the scores of n heads from head on. Lanes run over heads: the
// lines are what a tile takes as rows, so that one layout of a page serves as keys
// here and as values in mix. Few heads fill half a panel only.
func (a *attention) scoreLatent(q []float32, head, n int, scratch []float32) {
	w, width, compute := a.step, PanelWidth, tileF32
	if n <= halfWidth && halfLanes() {
		width, compute = halfWidth, tileHalf
	}
	packed, block := scratch[:w*width], scratch[w*width:]
	packHeads(packed, q[head*w:(head+n)*w], w, width)
	t := tile{ldDst: width, ldX: w, k: w, step: width, panels: 1}
	for p := 0; p <= a.last; p++ {
		_, t.rows = a.inside(p)
		if p < a.last {
			t.ahead = distance(packed, a.pages[p+1])
		}
		compute(block, a.pages[p], packed, t)
		for i := range n {
			scores := a.scores[(head+i)*a.ld+p*PagePositions:][:t.rows]
			for j := range scores {
				scores[j] = block[j*width+i]
			}
		}
	}
}

// packHeads lays q (n, w) out as a panel (w, width), the other lanes zero.
func packHeads(panel, q []float32, w, width int) {
	clear(panel)
	for i := 0; i*w < len(q); i++ {
		for j, v := range q[i*w : (i+1)*w] {
			panel[j*width+i] = v
		}
	}
}
