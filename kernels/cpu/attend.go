package cpu

import (
	"fmt"
	"math"
	"unsafe"
)

// Heads says which heads attention has: KV heads, each shared by Group query
// heads, of Dim dimensions.
type Heads struct{ KV, Group, Dim int }

// together returns how many KV heads a pass takes: a few query heads alone would
// leave the processor waiting for each of their chains.
func (h Heads) together() int {
	if h.Group > mostPerHead {
		return 1
	}
	return min(h.KV, mostHeads)
}

// A kernel takes at most this many KV heads, with this many query heads each.
const (
	mostHeads   = 4
	mostPerHead = 3
)

// AttendScratch returns the length of the scratch that AttendKept needs for positions below end.
func AttendScratch(h Heads, end int) int {
	positions := (end + PagePositions - 1) / PagePositions * PagePositions
	return h.together()*h.Group*(positions+1) + positions + h.Group*PanelWidth + PagePositions*PanelWidth
}

// AttendKept is attention of one position: out (KV, Group, Dim) from the query
// heads q (KV, Group, Dim), over the absolute positions [start, end). pages[i]
// holds positions 32i to 32i+31: for each KV head its block of keys and then
// its block of values, see StoreKV. Pages before start's may be nil. What the
// pages hold outside [start, end) has no effect.
//
// sinks (KV, Group) is a further score of each query head, which takes part in the softmax and has no value; nil: there
// is none. weights (end) is set to the sum over all query heads of what each position's value counts; nil: nobody asks.
//
// The format's Store has filled the pages. With KVBF16 the bits are those
// of keys and values that were rounded to bf16 before StoreKV. With KVInt8 a position's score is its key's
// scale times the score of the codes, and its value's scale times what it counts, rounded, is what its
// value's codes are multiplied by.
func AttendKept(f KVFormat, weights, out, q []float32, h Heads, pages [][]float32, start, end int, scale float32, sinks, scratch []float32) {
	attendKept(f, weights, out, q, h, 0, h.KV, pages, start, end, scale, sinks, scratch)
}

// AttendHeads is AttendKept of the KV heads [from, to) alone, whose bits do not depend on the others: callers may share
// them out. It leaves the rest of out as it is.
func AttendHeads(f KVFormat, out, q []float32, h Heads, from, to int, pages [][]float32, start, end int, scale float32, sinks, scratch []float32) {
	if from < 0 || to > h.KV {
		panic(fmt.Sprintf("cpu.AttendHeads: heads [%d, %d) of %d", from, to, h.KV))
	}
	attendKept(f, nil, out, q, h, from, to, pages, start, end, scale, sinks, scratch)
}

func attendKept(f KVFormat, weights, out, q []float32, h Heads, from, to int, pages [][]float32, start, end int, scale float32, sinks, scratch []float32) {
	if !f.Takes(h.Dim) {
		panic(fmt.Sprintf("cpu.AttendKept: heads of %d dimensions in format %d", h.Dim, f))
	}
	checkAttend(out, q, h, pages, start, end, scratch)
	if weights != nil {
		mustMatch("AttendKept", end, len(weights))
		clear(weights)
	}
	if sinks != nil {
		mustMatch("AttendKept", h.KV*h.Group, len(sinks))
	}
	a := attention{g: h.Group, c: h.Dim, start: start, end: end, first: start / PagePositions, last: (end - 1) / PagePositions}
	a.ld = (a.last - a.first + 1) * PagePositions
	a.format, a.pages, a.valuesAt, a.step, a.weights = f, pages, f.Words(h.Dim), h.Dim, weights
	for a.head = from; a.head < to; a.head += a.heads {
		a.heads = min(h.together(), to-a.head)
		at := a.head * h.Group * h.Dim
		if sinks != nil {
			a.sinks = sinks[a.head*h.Group:]
		}
		a.run(out[at:], q[at:], scale, scratch)
	}
}

func checkAttend(out, q []float32, h Heads, pages [][]float32, start, end int, scratch []float32) {
	count, width := (end+PagePositions-1)/PagePositions, h.KV*h.Group*h.Dim
	if h.KV < 1 || h.Group < 1 || h.Dim < 1 || start < 0 || start >= end || len(out) < width || len(q) < width ||
		len(pages) < count || len(scratch) < AttendScratch(h, end) {
		panic(fmt.Sprintf("cpu.AttendKept: out %d, q %d, %+v, %d pages, positions [%d, %d), scratch %d",
			len(out), len(q), h, len(pages), start, end, len(scratch)))
	}
}

// attention is the state of one pass over some KV heads.
type attention struct {
	g, c        int // query heads of a KV head, dimensions
	start, end  int
	first, last int // pages
	pages       [][]float32
	format      KVFormat
	valuesAt    int       // which word of a head's block its values begin with
	step        int       // from one position's value to the next
	head, heads int       // the pass's first KV head, and how many
	ld          int       // positions of those pages
	scores      []float32 // (heads, g, ld): position p at p - 32·first, so that lanes are anchored at absolute positions
	sums        []float32 // (heads, g)
	sinks       []float32 // (heads, g), or nil
	rest        []float32 // what mixRest needs
	weights     []float32 // by absolute position, or nil
	scales      []float32 // (ld), what rescale needs
}

func (a *attention) run(out, q []float32, scale float32, scratch []float32) {
	a.take(scratch)
	a.score(q)
	a.rescale(a.heads*a.g, 0)
	a.finish(out, scale)
}

// take cuts the scratch up.
func (a *attention) take(scratch []float32) {
	rows := a.heads * a.g
	a.scores, scratch = scratch[:rows*a.ld], scratch[rows*a.ld:]
	if a.format == KVInt8 {
		a.scales, scratch = scratch[:a.ld], scratch[a.ld:]
	}
	a.sums, a.rest = scratch[:rows], scratch[rows:]
}

// finish makes out of the scores.
func (a *attention) finish(out []float32, scale float32) {
	rows := a.heads * a.g
	for r := range rows {
		a.weigh(r, scale)
		a.addWeights(r)
	}
	a.rescale(rows, a.valuesAt)
	a.mix(out)
	for r := range rows {
		Scale(out[r*a.c:(r+1)*a.c], 1/a.sums[r])
	}
}

// stride returns the distance of two KV heads in a page, in words.
func (a *attention) stride() int { return 2 * a.format.Words(a.c) }

func (a *attention) words(n int) int { return a.format.words(n) }

// keys and values are page p's from the pass's first head on.
func (a *attention) keys(p int) []float32   { return a.pages[p][a.head*a.stride():] }
func (a *attention) values(p int) []float32 { return a.keys(p)[a.valuesAt:] }

func (a *attention) row(r int) []float32 { return a.scores[r*a.ld:][:(a.last-a.first+1)*PagePositions] }

// tiles computes a tile with each head's keys or values.
func (a *attention) tiles(dst, x, w []float32, t tile) {
	switch a.format {
	case KVBF16:
		tileHeadsHalf(dst, x, w, a.heads, a.stride(), t)
	case KVInt8:
		tileHeadsCodes(dst, x, w, a.heads, a.stride(), t)
	default:
		tileHeads(dst, x, w, a.heads, a.stride(), t)
	}
}

// score fills the scores of whole pages; weigh masks what is outside. The
// processor does not foresee where the next page lies, so kernels ask for it.
func (a *attention) score(q []float32) {
	t := tile{ldDst: a.ld, ldX: a.c, rows: a.g, k: a.c, step: PagePositions, panels: 1}
	for p := a.first; p <= a.last; p++ {
		keys, soon := a.keys(p), a.values(a.first)
		if p < a.last {
			soon = a.keys(p + 1)
		}
		t.ahead = distance(keys, soon)
		a.tiles(a.scores[(p-a.first)*PagePositions:], q, keys, t)
	}
}

// distance returns how many bytes after w the values soon lie, in another object maybe.
func distance(w, soon []float32) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(soon))) - uintptr(unsafe.Pointer(unsafe.SliceData(w))))
}

// weigh turns the scores of row r into e^(score·scale - max).
func (a *attention) weigh(r int, scale float32) {
	s := a.row(r)
	from := a.first * PagePositions
	mask(s[:a.start-from])
	mask(s[a.end-from:])
	top := scaleMax(s, scale)
	if a.sinks != nil {
		top = max(top, a.sinks[r])
	}
	var acc [lanes]float32
	expSum(&acc, s, top)
	a.sums[r] = tree(&acc)
	if a.sinks != nil {
		a.sums[r] += exp32(a.sinks[r] - top)
	}
}

// addWeights adds the shares of row r.
func (a *attention) addWeights(r int) {
	if a.weights == nil {
		return
	}
	s, share := a.scores[r*a.ld+a.start-a.first*PagePositions:], 1/a.sums[r]
	for p := a.start; p < a.end; p++ {
		a.weights[p] += s[p-a.start] * share
	}
}

func mask(s []float32) {
	for i := range s {
		s[i] = float32(math.Inf(-1))
	}
}

// inside returns the range of slots of page p that lie in [start, end).
func (a *attention) inside(p int) (lo, hi int) {
	from := p * PagePositions
	return max(a.start-from, 0), min(a.end-from, PagePositions)
}

// mix sums the weighted values into out (heads, g, C), before the division by the sum.
func (a *attention) mix(out []float32) {
	whole := a.c &^ (PanelWidth - 1)
	if whole > 0 {
		a.mixFrom(out, a.scores, false)
	}
	if whole < a.c {
		for h := range a.heads {
			a.mixRest(out[h*a.g*a.c:], h, whole)
		}
	}
}

// mixFrom is mix of whole panels of dimensions from the first page on, whose first score is scores'; add: to what out has.
func (a *attention) mixFrom(out, scores []float32, add bool) {
	for p := a.first; p <= a.last; p++ {
		lo, hi := a.inside(p)
		t := tile{ldDst: a.c, ldX: a.ld, rows: a.g, k: hi - lo, step: a.step,
			panels: a.c / PanelWidth, panelStride: PanelWidth, add: add || p > a.first}
		values := a.values(p)
		if p < a.last {
			t.ahead = distance(values, a.values(p+1))
		}
		a.tiles(out, scores[(p-a.first)*PagePositions+lo:], values[a.words(lo*a.step):], t)
	}
}

// mixRest does head h's dimensions from lane on, which do not fill a panel, on a padded copy.
func (a *attention) mixRest(out []float32, h, lane int) {
	width := a.c - lane
	sums, block := a.rest[:a.g*PanelWidth], a.rest[a.g*PanelWidth:][:PagePositions*PanelWidth]
	clear(block)
	for p := a.first; p <= a.last; p++ {
		lo, hi := a.inside(p)
		values := a.values(p)[h*a.stride():]
		for i := lo; i < hi; i++ {
			copy(block[i*PanelWidth:][:width], values[i*a.step+lane:])
		}
		t := tile{ldDst: PanelWidth, ldX: a.ld, rows: a.g, k: hi - lo, step: PanelWidth, panels: 1, add: p > a.first}
		tileF32(sums, a.scores[h*a.g*a.ld+(p-a.first)*PagePositions+lo:], block[lo*PanelWidth:], t)
	}
	for r := range a.g {
		copy(out[r*a.c+lane:][:width], sums[r*PanelWidth:])
	}
}
