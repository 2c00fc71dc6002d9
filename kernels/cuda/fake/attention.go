package fake

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Positions of a page, and of a split.
const (
	pagePositions  = 32
	splitPositions = 256
)

// attention returns the kernels that read and write pages. They cut sums as the real ones do,
// so that tiles give the bits of splits.
func attention() map[string]Kernel {
	all := map[string]Kernel{}
	for _, w := range []int{32, 64, 128, 256} {
		all[fmt.Sprintf("attend_merge_w%d", w)] = attendMerge(w)
	}
	for parts := 1; parts <= 2; parts++ {
		all[fmt.Sprintf("kv_store_p%d", parts)] = kvStore(parts)
		for _, w := range []int{32, 64, 128, 256} {
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

// get returns a line's sum over parts.
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

// rowPages returns where the pages of row r's sequence begin.
func rowPages(m *Memory, pages, pagesAt uint64, r int) cuda.Ptr {
	return cuda.Ptr(pages) + cuda.Ptr(8*View[uint32](m, cuda.Ptr(pagesAt), r+1)[r])
}
