package cpu

import (
	"fmt"
	"math"
)

// PagePositions is the number of positions in a page of the KV cache.
const PagePositions = 32

// StoreKV writes the key and the value (C) of one position of one KV head into
// its page: kblock is (C, PagePositions), transposed so that scores run over
// positions; vblock is (PagePositions, C).
func StoreKV(kblock, vblock []float32, slot int, k, v []float32) {
	c := len(k)
	if slot < 0 || slot >= PagePositions || len(v) != c || len(kblock) < c*PagePositions || len(vblock) < c*PagePositions {
		panic(fmt.Sprintf("cpu.StoreKV: slot %d of blocks of %d and %d values, key of %d, value of %d",
			slot, len(kblock), len(vblock), c, len(v)))
	}
	for i, x := range k {
		kblock[i*PagePositions+slot] = x
	}
	copy(vblock[slot*c:(slot+1)*c], v)
}

// AttendScratch is the length of the scratch that Attend needs for g query
// heads over positions below end.
func AttendScratch(g, end int) int {
	positions := (end + PagePositions - 1) / PagePositions * PagePositions
	return g*positions + g + g*PanelWidth + PagePositions*PanelWidth
}

// Attend is attention of one position: out (g, C) from the query heads q (g, C)
// that share one KV head, over the absolute positions [start, end). kblocks[i]
// and vblocks[i] are the blocks of page i, with positions 32i to 32i+31; pages
// before start's may be nil. What the pages hold outside [start, end) has no effect.
func Attend(out, q []float32, g, headDim int, kblocks, vblocks [][]float32, start, end int, scale float32, scratch []float32) {
	checkAttend(out, q, g, headDim, kblocks, vblocks, start, end, scratch)
	a := attention{g: g, c: headDim, start: start, end: end, first: start / PagePositions, last: (end - 1) / PagePositions}
	a.ld = (a.last - a.first + 1) * PagePositions
	a.scores, scratch = scratch[:g*a.ld], scratch[g*a.ld:]
	a.sums, a.rest = scratch[:g], scratch[g:]
	a.score(q, kblocks)
	for h := range g {
		a.weigh(h, scale)
	}
	a.mix(out, vblocks)
	for h := range g {
		Scale(out[h*headDim:(h+1)*headDim], 1/a.sums[h])
	}
}

func checkAttend(out, q []float32, g, headDim int, kblocks, vblocks [][]float32, start, end int, scratch []float32) {
	pages := (end + PagePositions - 1) / PagePositions
	if g < 1 || headDim < 1 || start < 0 || start >= end || len(out) < g*headDim || len(q) < g*headDim ||
		len(kblocks) < pages || len(vblocks) < pages || len(scratch) < AttendScratch(g, end) {
		panic(fmt.Sprintf("cpu.Attend: out %d, q %d, %d heads of %d, %d and %d pages, positions [%d, %d), scratch %d",
			len(out), len(q), g, headDim, len(kblocks), len(vblocks), start, end, len(scratch)))
	}
}

// attention is the state of one call of Attend.
type attention struct {
	g, c        int
	start, end  int
	first, last int       // pages
	ld          int       // positions of those pages
	scores      []float32 // (g, ld): position p at p - 32·first, so that lanes are anchored at absolute positions
	sums        []float32 // (g)
	rest        []float32 // what mixRest needs
}

// score fills the scores of whole pages; weigh masks what is outside.
func (a *attention) score(q []float32, kblocks [][]float32) {
	t := tile{ldDst: a.ld, ldX: a.c, rows: a.g, k: a.c, step: PagePositions, panels: 1}
	for p := a.first; p <= a.last; p++ {
		tileF32(a.scores[(p-a.first)*PagePositions:], q, kblocks[p][:a.c*PagePositions], t)
	}
}

// weigh turns the scores of head h into e^(score·scale - max).
func (a *attention) weigh(h int, scale float32) {
	s := a.scores[h*a.ld : (h+1)*a.ld]
	from := a.first * PagePositions
	mask(s[:a.start-from])
	mask(s[a.end-from:])
	top := scaleMax(s, scale)
	var acc [lanes]float32
	expSum(&acc, s, top)
	a.sums[h] = tree(&acc)
}

func mask(s []float32) {
	for i := range s {
		s[i] = float32(math.Inf(-1))
	}
}

// inside is the range of slots of page p that lie in [start, end).
func (a *attention) inside(p int) (lo, hi int) {
	from := p * PagePositions
	return max(a.start-from, 0), min(a.end-from, PagePositions)
}

// mix sums the weighted values into out (g, C), before the division by the sum.
func (a *attention) mix(out []float32, vblocks [][]float32) {
	whole := a.c &^ (PanelWidth - 1)
	for p := a.first; p <= a.last && whole > 0; p++ {
		lo, hi := a.inside(p)
		t := tile{ldDst: a.c, ldX: a.ld, rows: a.g, k: hi - lo, step: a.c,
			panels: whole / PanelWidth, panelStride: PanelWidth, add: p > a.first}
		tileF32(out, a.scores[(p-a.first)*PagePositions+lo:], vblocks[p][lo*a.c:hi*a.c], t)
	}
	if whole < a.c {
		a.mixRest(out, vblocks, whole)
	}
}

// mixRest does the dimensions from lane on, which do not fill a panel, on a padded copy.
func (a *attention) mixRest(out []float32, vblocks [][]float32, lane int) {
	width := a.c - lane
	sums, block := a.rest[:a.g*PanelWidth], a.rest[a.g*PanelWidth:][:PagePositions*PanelWidth]
	clear(block)
	for p := a.first; p <= a.last; p++ {
		lo, hi := a.inside(p)
		for i := lo; i < hi; i++ {
			copy(block[i*PanelWidth:][:width], vblocks[p][i*a.c+lane:])
		}
		t := tile{ldDst: PanelWidth, ldX: a.ld, rows: a.g, k: hi - lo, step: PanelWidth, panels: 1, add: p > a.first}
		tileF32(sums, a.scores[(p-a.first)*PagePositions+lo:], block[lo*PanelWidth:], t)
	}
	for h := range a.g {
		copy(out[h*a.c+lane:][:width], sums[h*PanelWidth:])
	}
}
