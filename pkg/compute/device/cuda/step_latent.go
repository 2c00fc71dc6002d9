package cuda

import (
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

type latentBuffers struct {
	line   cuda.Ptr // (rows, W)
	lines  cuda.Ptr // (rows, H, W): queries
	sums   cuda.Ptr // (rows, H, rank)
	planes cuda.Ptr // (P, rows · H, widest), a head's rows together
}

// latent fills the buffer attn (rows, H·ValueDim) from the planes of normalised rows.
func (l *stepLane) latent(t *backboneLayer) {
	x, w, n, tiles := &t.spec.Mixer, t.latent, l.n, l.table(l.tables.tiles)
	rank, rope := x.Latent.KVRank, x.Latent.RopeDim
	l.project(l.at.latent.line, &w.line, n, tiles, l.tiles, false)
	l.latentQueries(w, x)
	l.normUnits(l.at.latent.line, w.lineNorm, rank, w.line.n, x.Latent.Eps)
	l.turnHeads(t, l.at.latent.line+cuda.Ptr(4*rank), 1, rope, w.line.n)
	l.turnHeads(t, l.at.qkv+cuda.Ptr(4*x.Latent.NopeDim), x.Heads, x.HeadDim, x.Heads*x.HeadDim)
	l.eachHead(&w.absorb, l.at.qkv, l.at.latent.lines, x.Heads)
	l.attendLatent(t)
	l.eachHead(&w.expand, l.at.latent.sums, l.at.attn, x.Heads)
}

// latentQueries fills the buffer qkv (rows, H·C).
func (l *stepLane) latentQueries(w *latentWeights, x *model.MixerSpec) {
	n, tiles := l.n, l.table(l.tables.tiles)
	if w.up.n == 0 {
		l.project(l.at.qkv, &w.q, n, tiles, l.tiles, false)
		return
	}
	l.project(l.at.attn, &w.q, n, tiles, l.tiles, false)
	l.normUnits(l.at.attn, w.queryNorm, w.q.n, w.q.n, x.Latent.Eps)
	l.split(l.at.attn, w.q.n, n, 0)
	l.project(l.at.qkv, &w.up, n, tiles, l.tiles, false)
}

// normUnits normalises the first n elements of each row of x, in place.
func (l *stepLane) normUnits(x, weight cuda.Ptr, n, ld int, eps float32) {
	l.launch(l.b.kernels.rmsNorm, l.n, 1, 1, 256, 0, append(l.args[:0],
		uint64(x), uint64(x), uint64(weight), uint64(n), 1, uint64(ld), uint64(ld), float(eps)))
}

// eachHead is out (rows, H, N) of x (rows, H, K) by each head's matrix.
func (l *stepLane) eachHead(w *weight, x, out cuda.Ptr, heads int) {
	n, plane := l.n, uint64(l.b.sizes.rows*l.b.sizes.heads)
	order, kp := uint64(l.table(l.tables.heads)), uint64(padded(w.k))
	l.launch(l.b.kernels.split, n*heads, 1, 1, 128, 0, append(l.args[:0],
		uint64(l.at.latent.planes), uint64(x), order, 0, uint64(w.k), kp, uint64(w.k), plane))
	v := l.b.kernels.variantFor(w.format, n)
	count := heads * ceil(n, v.tile)
	l.launch(v.down, ceil(w.n, v.features)*count, 1, 1, v.block, v.shared, append(l.args[:0],
		uint64(out), uint64(l.at.latent.planes), uint64(l.table(l.tables.headTiles)), uint64(w.entry), order, 0,
		uint64(w.n), kp, plane, uint64(w.n), uint64(count), 0))
}

// attendLatent stores lines, and fills sums.
func (l *stepLane) attendLatent(t *backboneLayer) {
	x, k := &t.spec.Mixer, l.b.kernels.latent[latentRank(t.spec.Mixer.Latent.KVRank)]
	g, layerAt := l.b.pool.At(t.place)
	c, w, rank := uint64(t.latent.line.n), uint64(paddedLine(x)), uint64(x.Latent.KVRank)
	start, end := l.table(l.tables.start[g]), l.table(l.tables.end)
	pagesAt, pages := l.table(l.tables.pagesAt[g]), l.table(l.tables.pages)
	l.launch(l.b.kernels.latentStore, l.n, 1, 1, 128, 0, append(l.args[:0],
		uint64(l.at.latent.line), uint64(l.table(l.tables.position)), uint64(pagesAt), uint64(pages), uint64(layerAt), c, c, w))
	for _, s := range l.stretches {
		from, rows := cuda.Ptr(s.from), s.to-s.from
		l.launch(k.split, s.splits, ceil(x.Heads, 16), rows, k.splitThreads, k.splitShared, append(l.args[:0],
			uint64(l.at.parts), uint64(l.at.latent.lines)+uint64(4*s.from*x.Heads)*c, uint64(start+4*from), uint64(end+4*from), uint64(pagesAt+4*from),
			uint64(pages), uint64(layerAt), uint64(x.Heads), c, w, uint64(x.Heads)*c, uint64(s.splits), float(x.Scale)))
		l.launch(k.merge, x.Heads, rows, 1, uint32(k.width), 0, append(l.args[:0],
			uint64(l.at.latent.sums)+uint64(4*s.from*x.Heads)*rank, uint64(l.at.parts), uint64(start+4*from), uint64(end+4*from), 0,
			uint64(x.Heads), rank, uint64(x.Heads)*rank, uint64(s.splits)))
	}
	l.launch(k.tile, ceil(l.b.sizes.tileRows()*x.Heads, 32), l.spans, 1, k.tileThreads, k.tileShared, append(l.args[:0],
		uint64(l.at.latent.sums), uint64(l.at.latent.lines), uint64(start), uint64(end), uint64(pagesAt), uint64(pages),
		uint64(l.table(l.tables.spans)), uint64(layerAt), uint64(x.Heads), c, w, rank, uint64(x.Heads)*c, uint64(x.Heads)*rank, float(x.Scale)))
}

// layOutHeads lists a step's heads, all rows of the first one before the next, and cuts
// them into tiles.
func (l *stepLane) layOutHeads() {
	heads, n := l.b.sizes.heads, l.n
	if heads == 0 {
		return
	}
	order, tiles, at := view[uint32](l.in, l.tables.heads), view[tile](l.in, l.tables.headTiles), 0
	most := l.b.kernels.tileFor(n)
	for h := range heads {
		for i := range n {
			order[h*n+i] = uint32(i*heads + h)
		}
		for from := 0; from < n; from += most {
			tiles[at] = tileFrom(h, h*n+from, h*n+len(l.rows), most)
			at++
		}
	}
}

// latentRank returns the number of the kernels for values of so many elements.
func latentRank(rank int) int {
	if rank <= 64 {
		return 64
	}
	return mostRank
}

// mostRank is the widest latent that attention's kernels take.
const mostRank = 512

// paddedLine returns the width that a line has in pages.
func paddedLine(x *model.MixerSpec) int {
	return padded(max(x.Latent.KVRank+x.Latent.RopeDim, latentRank(x.Latent.KVRank)))
}
