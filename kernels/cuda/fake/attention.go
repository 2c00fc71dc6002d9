package fake

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Positions of a page, and of a split.
const (
	pagePositions  = 32
	splitPositions = 256
)

// attention are the kernels that read and write pages. They cut sums as the real ones do,
// so that tiles give the bits of splits.
func attention() map[string]Kernel {
	all := map[string]Kernel{}
	for _, w := range []int{32, 64, 128} {
		all[fmt.Sprintf("attend_merge_w%d", w)] = attendMerge(w)
	}
	for parts := 1; parts <= 2; parts++ {
		all[fmt.Sprintf("kv_store_p%d", parts)] = kvStore(parts)
		for _, w := range []int{32, 64, 128} {
			all[fmt.Sprintf("attend_split_p%d_w%d", parts, w)] = attendSplit(parts, w)
			all[fmt.Sprintf("attend_tile_p%d_w%d", parts, w)] = attendTile(parts, w)
		}
	}
	return all
}

// paged are one row's pages.
type paged struct {
	m        *Memory
	pages    cuda.Ptr // of the row's sequence
	layerAt  cuda.Ptr
	parts, w int
}

// line is position p's key of a head, or with value its value, in one part.
func (g *paged) line(p, head, part int, value bool) []uint16 {
	page := View[uint64](g.m, g.pages+cuda.Ptr(8*(p/pagePositions)), 1)[0]
	plane := 2*head*g.parts + part
	if value {
		plane += g.parts
	}
	return View[uint16](g.m, cuda.Ptr(page)+g.layerAt+cuda.Ptr(2*(plane*pagePositions+p%pagePositions)*g.w), g.w)
}

// get is a line's sum over parts.
func (g *paged) get(p, head int, value bool) []float32 {
	x := make([]float32, g.w)
	for part := range g.parts {
		for i, v := range g.line(p, head, part, value) {
			x[i] += toFloat(v)
		}
	}
	return x
}

func kvStore(parts int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		c, w := int(a[7]), int(a[8])
		for r := range int(l.Grid[1]) {
			at := int(View[uint32](m, cuda.Ptr(a[2]), r+1)[r])
			g := paged{m, rowPages(m, a[4], a[3], r), cuda.Ptr(a[5]), parts, w}
			for h := range int(l.Grid[0]) {
				for from, side := range a[:2] {
					x := floats(m, side+uint64(4*r)*a[6]+uint64(4*h*c), c)
					for part := range parts {
						putPart(g.line(at, h, part, from == 1), x, part)
					}
				}
			}
		}
	}
}

// putPart writes one part of x; what is not given is zero.
func putPart(to []uint16, x []float32, part int) {
	clear(to)
	for i, v := range x {
		for range part {
			v -= toFloat(toBF16(v))
		}
		to[i] = toBF16(v)
	}
}

// rowPages is where the pages of row r's sequence begin.
func rowPages(m *Memory, pages, pagesAt uint64, r int) cuda.Ptr {
	return cuda.Ptr(pages) + cuda.Ptr(8*View[uint32](m, cuda.Ptr(pagesAt), r+1)[r])
}

// piece is one query over the positions of one split: sums, maximum, sum of weights.
type piece []float32

// pieceOf is the query q over the positions [from, to). Of a latent the key is the value.
func (g *paged) pieceOf(q []float32, head, from, to int, scale float32, latent bool) piece {
	scores, top := make([]float64, to-from), math.Inf(-1)
	for i := range scores {
		for d, k := range g.get(from+i, head, false)[:len(q)] {
			scores[i] += float64(q[d]) * float64(k)
		}
		scores[i] *= float64(scale)
		top = max(top, scores[i])
	}
	sums, all := make([]float64, g.w), 0.0
	for i, s := range scores {
		weight := math.Exp(s - top)
		all += weight
		for d, v := range g.get(from+i, head, !latent) {
			sums[d] += weight * float64(v)
		}
	}
	out := make(piece, g.w+2)
	for d, s := range sums {
		out[d] = float32(s)
	}
	out[g.w], out[g.w+1] = float32(top), float32(all)
	return out
}

// merge joins pieces in order, and the sink last if there is one.
func merge(out []float32, pieces []piece, w int, sink *float32) {
	top, all, sums := math.Inf(-1), 0.0, make([]float64, len(out))
	join := func(itsTop, itsAll float64, values []float32) {
		next := max(top, itsTop)
		old, its := math.Exp(top-next), math.Exp(itsTop-next)
		top, all = next, all*old+itsAll*its
		for d := range sums {
			sums[d] *= old
			if values != nil {
				sums[d] += float64(values[d]) * its
			}
		}
	}
	for _, p := range pieces {
		join(float64(p[w]), float64(p[w+1]), p)
	}
	if sink != nil {
		join(float64(*sink), 1, nil)
	}
	for d := range out {
		out[d] = float32(sums[d] / all)
	}
}

// sinkOf is a head's sink; nil without.
func sinkOf(m *Memory, sinks uint64, head int) *float32 {
	if sinks == 0 {
		return nil
	}
	return &floats(m, sinks, head+1)[head]
}

// seen is what row r sees.
func seen(m *Memory, start, end uint64, r int) (from, to int) {
	return int(View[uint32](m, cuda.Ptr(start), r+1)[r]), int(View[uint32](m, cuda.Ptr(end), r+1)[r])
}

func attendSplit(parts, w int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		heads, kv, c, splits := int(a[7]), int(a[8]), int(a[9]), int(a[11])
		for r := range int(l.Grid[2]) {
			start, end := seen(m, a[2], a[3], r)
			g := paged{m, rowPages(m, a[5], a[4], r), cuda.Ptr(a[6]), parts, w}
			for s := range int(l.Grid[0]) {
				from, to := max(start, s*splitPositions), min(end, (s+1)*splitPositions)
				for h := 0; h < heads && from < to; h++ {
					q := floats(m, a[1]+uint64(4*r)*a[10]+uint64(4*h*c), c)
					at := (r*heads+h)*splits + s
					copy(floats(m, a[0]+uint64(4*at*(w+2)), w+2), g.pieceOf(q, h/(heads/kv), from, to, number(a[12]), false))
				}
			}
		}
	}
}

func attendMerge(w int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		heads, c, splits := int(a[5]), int(a[6]), int(a[8])
		for r := range int(l.Grid[1]) {
			start, end := seen(m, a[2], a[3], r)
			for h := range heads {
				var pieces []piece
				for s := start / splitPositions; s*splitPositions < end; s++ {
					at := (r*heads+h)*splits + s
					pieces = append(pieces, floats(m, a[1]+uint64(4*at*(w+2)), w+2))
				}
				merge(floats(m, a[0]+uint64(4*r)*a[7]+uint64(4*h*c), c), pieces, w, sinkOf(m, a[4], h))
			}
		}
	}
}

func attendTile(parts, w int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		heads, kv, c := int(a[9]), int(a[10]), int(a[11])
		for i := range int(l.Grid[1]) {
			_, first, rows := tileOf(m, a[6], i, 64/(heads/kv))
			for r := first; r < first+rows; r++ {
				start, end := seen(m, a[2], a[3], r)
				g := paged{m, rowPages(m, a[5], a[4], first), cuda.Ptr(a[8]), parts, w}
				for h := range heads {
					q := floats(m, a[1]+uint64(4*r)*a[12]+uint64(4*h*c), c)
					var pieces []piece
					for s := start / splitPositions; s*splitPositions < end; s++ {
						from, to := max(start, s*splitPositions), min(end, (s+1)*splitPositions)
						pieces = append(pieces, g.pieceOf(q, h/(heads/kv), from, to, number(a[14]), false))
					}
					merge(floats(m, a[0]+uint64(4*r)*a[13]+uint64(4*h*c), c), pieces, w, sinkOf(m, a[7], h))
				}
			}
		}
	}
}
