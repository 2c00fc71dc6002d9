package fake

import (
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// piece is one query over the positions of one split: sums, maximum, sum of weights.
type piece []float32

// pieceOf returns the query q over the positions [from, to). Of a latent the key is the value.
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
func merge(out []float32, pieces []piece, sink *float32) {
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
		w := len(p) - 2
		join(float64(p[w]), float64(p[w+1]), p)
	}
	if sink != nil {
		join(float64(*sink), 1, nil)
	}
	for d := range out {
		out[d] = float32(sums[d] / all)
	}
}

func sinkOf(m *Memory, sinks uint64, head int) *float32 {
	if sinks == 0 {
		return nil
	}
	return &floats(m, sinks, head+1)[head]
}

func seen(m *Memory, start, end uint64, r int) (from, to int) {
	return int(View[uint32](m, cuda.Ptr(start), r+1)[r]), int(View[uint32](m, cuda.Ptr(end), r+1)[r])
}

// attending is a launch that attends rows over pages. Of heads or of latents, its
// parameters begin alike: part or out, q, start, end, pages_at, pages, and of tiles tile.
type attending struct {
	args     []uint64
	layerAt  uint64
	parts, w int // of a line in pages
	heads    int
	share    int // heads of a KV head
	c        int // elements of a query
	kept     int // elements of a piece's sums
	latent   bool
	ldq      uint64
	scale    float32
}

// piece is row r's head h over the split n; the pages are those of row of. It is nil if
// the row sees nothing there.
func (k *attending) piece(m *Memory, r, of, h, n int) piece {
	start, end := seen(m, k.args[2], k.args[3], r)
	from, to := max(start, n*splitPositions), min(end, (n+1)*splitPositions)
	if from >= to {
		return nil
	}
	g := paged{m, rowPages(m, k.args[5], k.args[4], of), cuda.Ptr(k.layerAt), k.parts, k.w}
	q := floats(m, k.args[1]+uint64(4*r)*k.ldq+uint64(4*h*k.c), k.c)
	all := g.pieceOf(q, h/k.share, from, to, k.scale, k.latent)
	return append(all[:k.kept:k.kept], all[k.w:]...)
}

// inSplits writes the pieces of rows, of which there is room for so many a head.
func (k *attending) inSplits(m *Memory, l *cuda.Launch, splits uint64) {
	for r := range int(l.Grid[2]) {
		for h := range k.heads {
			for n := range int(l.Grid[0]) {
				p, at := k.piece(m, r, r, h, n), (r*k.heads+h)*int(splits)+n
				copy(floats(m, k.args[0]+uint64(4*at*(k.kept+2)), len(p)), p)
			}
		}
	}
}

// inTiles writes the results of the rows of tiles, values elements a head. Tiles have as
// many rows at most as blocks have room for.
func (k *attending) inTiles(m *Memory, tiles uint32, most, values int, ldout, sinks uint64) {
	for i := range int(tiles) {
		_, first, rows := tileOf(m, k.args[6], i, most)
		for r := first; r < first+rows; r++ {
			start, end := seen(m, k.args[2], k.args[3], r)
			for h := range k.heads {
				var pieces []piece
				for n := start / splitPositions; n*splitPositions < end; n++ {
					pieces = append(pieces, k.piece(m, r, first, h, n))
				}
				merge(floats(m, k.args[0]+uint64(4*r)*ldout+uint64(4*h*values), values), pieces, sinkOf(m, sinks, h))
			}
		}
	}
}

func attendSplit(parts, w int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		k := attending{
			args: a, layerAt: a[6], parts: parts, w: w, heads: int(a[7]), share: int(a[7] / a[8]), c: int(a[9]), kept: w,
			ldq: a[10], scale: number(a[12]),
		}
		k.inSplits(m, l, a[11])
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
				merge(floats(m, a[0]+uint64(4*r)*a[7]+uint64(4*h*c), c), pieces, sinkOf(m, a[4], h))
			}
		}
	}
}

// attendTile has one block for a tile, or of the widest heads blocks of 32 queries.
func attendTile(parts, w int) Kernel {
	return func(m *Memory, l *cuda.Launch) {
		a := l.Args
		k := attending{
			args: a, layerAt: a[8], parts: parts, w: w, heads: int(a[9]), share: int(a[9] / a[10]), c: int(a[11]), kept: w,
			ldq: a[12], scale: number(a[14]),
		}
		queries := 64
		if w == 256 {
			queries = 32 * int(l.Grid[2])
		}
		k.inTiles(m, l.Grid[1], queries/k.share, k.c, a[13], a[7])
	}
}
