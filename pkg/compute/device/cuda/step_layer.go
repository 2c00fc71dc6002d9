package cuda

import (
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Attend computes a layer's norms and attention, and brings to the host what the
// layer's experts compute.
func (l *stepLane) Attend(i int) ([]float32, error) {
	t, n := &l.b.layers[i], len(l.rows)
	l.norm(&t.norm, l.x())
	l.split(l.at.norm, l.b.sizes.hidden, n, 0)
	if t.latent != nil {
		l.latent(i, t)
	} else {
		l.project(l.at.qkv, &t.qkv, n, l.table(l.tables.tiles), l.tiles, false)
		l.turn(t)
		l.attend(i, t)
	}
	l.split(l.at.attn, t.o.k, n, 0)
	l.project(l.x(), &t.o, n, l.table(l.tables.tiles), l.tiles, true)
	l.norm(&t.ffnNorm, l.x())
	if !t.spec.MoE {
		return nil, failed(l.err)
	}
	out := l.out[:4*n*l.b.sizes.hidden]
	l.copyOut(out, l.at.norm)
	if err := l.wait(); err != nil {
		return nil, err
	}
	return view[float32](out, 0), nil
}

// norm fills the buffer norm (rows, D).
func (l *stepLane) norm(w *normWeights, x cuda.Ptr) {
	d, n := uint64(l.b.sizes.hidden), len(l.rows)
	if w.bias != 0 {
		l.launch(l.b.kernels.layerNorm, n, 1, 1, 256, 0, append(l.args[:0],
			uint64(l.at.norm), uint64(x), uint64(w.weight), uint64(w.bias), d, d, d, float(w.eps)))
		return
	}
	l.launch(l.b.kernels.rmsNorm, n, 1, 1, 256, 0, append(l.args[:0],
		uint64(l.at.norm), uint64(x), uint64(w.weight), d, 1, d, d, float(w.eps)))
}

func float(f float32) uint64 { return uint64(math.Float32bits(f)) }

// split makes planes of rows x of k elements; source, if it is not 0, says of which.
func (l *stepLane) split(x cuda.Ptr, k, rows int, source cuda.Ptr) {
	l.launch(l.b.kernels.split, rows, 1, 1, 128, 0, append(l.args[:0],
		uint64(l.at.planes), uint64(x), uint64(source), 0, uint64(k), uint64(padded(k)), uint64(k), uint64(l.b.sizes.rows)))
}

// project is out (rows, N) of the planes, or that added to what is there.
func (l *stepLane) project(out cuda.Ptr, m *weight, rows int, tiles cuda.Ptr, count int, add bool) {
	l.projectFrom(l.at.planes, out, m, rows, tiles, count, add)
}

func (l *stepLane) projectFrom(planes, out cuda.Ptr, m *weight, rows int, tiles cuda.Ptr, count int, add bool) {
	v, adds := l.b.kernels.variantFor(m.format, rows), uint64(0)
	if add {
		adds = 1
	}
	l.launch(v.down, ceil(m.n, v.features)*count, 1, 1, v.block, v.shared, append(l.args[:0],
		uint64(out), uint64(planes), uint64(tiles), uint64(m.entry), 0, 0,
		uint64(m.n), uint64(padded(m.k)), uint64(l.b.sizes.rows), uint64(m.n), uint64(count), adds))
}

// turn does to queries, keys and values what positions and norms do.
func (l *stepLane) turn(t *backboneLayer) {
	x, n, ld := &t.spec.Mixer, len(l.rows), uint64(t.qkv.n)
	if x.QKNorm == model.QKNormHead || x.QKNorm == model.QKNormWhole {
		l.normHeads(t)
	}
	if x.Clip > 0 {
		l.launch(l.b.kernels.scaleRows, n, 1, 1, 128, 0, append(l.args[:0], uint64(l.at.qkv), 0, ld, ld, float(x.Clip)))
	}
	l.turnHeads(t, l.at.qkv, x.Heads+x.KVHeads, x.HeadDim, t.qkv.n)
	if x.QKNorm == model.QKNormL2 {
		l.normHeads(t)
	}
	if t.temperature >= 0 {
		l.launch(l.b.kernels.scaleRows, n, 1, 1, 128, 0, append(l.args[:0],
			uint64(l.at.qkv), uint64(l.table(l.tables.temperature[t.temperature])), ld, uint64(x.Heads*x.HeadDim), 0))
	}
}

// turnHeads rotates heads of each row at x, c elements from one to the next, ld from row
// to row.
func (l *stepLane) turnHeads(t *backboneLayer, x cuda.Ptr, heads, c, ld int) {
	if t.turn < 0 {
		return
	}
	of, pairs := &t.spec.Mixer.Rope, uint64(0)
	if of.Kind == model.Interleaved {
		pairs = 1
	}
	l.launch(l.b.kernels.rope, heads, len(l.rows), 1, 32, 0, append(l.args[:0],
		uint64(x), uint64(l.table(l.tables.cos[t.turn])), uint64(l.table(l.tables.sin[t.turn])), uint64(l.table(l.tables.angle)),
		uint64(ld), uint64(c), uint64(of.Dim), pairs))
}

// normHeads normalises queries and keys, head by head or whole.
func (l *stepLane) normHeads(t *backboneLayer) {
	x, ld, eps := &t.spec.Mixer, uint64(t.qkv.n), float(t.spec.Norm.Eps)
	kernel, threads := l.b.kernels.headNorm, uint32(32)
	if x.QKNorm == model.QKNormWhole {
		kernel, threads = l.b.kernels.rmsNorm, 256
	}
	at := l.at.qkv
	for _, side := range []struct {
		heads  int
		weight cuda.Ptr
	}{{x.Heads, t.qNorm}, {x.KVHeads, t.kNorm}} {
		units, width := side.heads, x.HeadDim
		if x.QKNorm == model.QKNormWhole {
			units, width = 1, side.heads*x.HeadDim
		}
		l.launch(kernel, len(l.rows)*units, 1, 1, threads, 0, append(l.args[:0],
			uint64(at), uint64(at), uint64(side.weight), uint64(width), uint64(units), ld, ld, eps))
		at += cuda.Ptr(4 * side.heads * x.HeadDim)
	}
}

// attend stores keys and values, and fills the buffer attn (rows, H·C).
func (l *stepLane) attend(i int, t *backboneLayer) {
	x, k := &t.spec.Mixer, l.b.kernels.attend[paddedHead(t.spec.Mixer.HeadDim)]
	g, layerAt := l.b.pool.At(i)
	keys := l.at.qkv + cuda.Ptr(4*x.Heads*x.HeadDim)
	ld, c := uint64(t.qkv.n), uint64(x.HeadDim)
	start, end := l.table(l.tables.start[g]), l.table(l.tables.end)
	pagesAt, pages := l.table(l.tables.pagesAt[g]), l.table(l.tables.pages[g])
	l.launch(l.b.kernels.store, x.KVHeads, len(l.rows), 1, 32, 0, append(l.args[:0],
		uint64(keys), uint64(keys+cuda.Ptr(4*x.KVHeads*x.HeadDim)), uint64(l.table(l.tables.position)), uint64(pagesAt), uint64(pages),
		uint64(layerAt), ld, c, uint64(k.width)))
	for _, s := range l.stretches {
		from, rows := cuda.Ptr(s.from), s.to-s.from
		l.launch(k.split, s.splits, x.KVHeads*ceil(t.share(), 16), rows, k.splitThreads, k.splitShared, append(l.args[:0],
			uint64(l.at.parts), uint64(l.at.qkv+4*from*cuda.Ptr(t.qkv.n)), uint64(start+4*from), uint64(end+4*from), uint64(pagesAt+4*from),
			uint64(pages), uint64(layerAt), uint64(x.Heads), uint64(x.KVHeads), c, ld, uint64(s.splits), float(x.Scale)))
		l.launch(k.merge, x.Heads, rows, 1, uint32(k.width), 0, append(l.args[:0],
			uint64(l.at.attn+4*from*cuda.Ptr(t.o.k)), uint64(l.at.parts), uint64(start+4*from), uint64(end+4*from), uint64(t.sinks),
			uint64(x.Heads), c, uint64(t.o.k), uint64(s.splits)))
	}
	blocks := 1
	if k.width == wideHead {
		blocks = ceil(l.b.sizes.tileRows()*t.share(), 32)
	}
	l.launch(k.tile, x.KVHeads, l.spans, blocks, k.tileThreads, k.tileShared, append(l.args[:0],
		uint64(l.at.attn), uint64(l.at.qkv), uint64(start), uint64(end), uint64(pagesAt), uint64(pages), uint64(l.table(l.tables.spans)),
		uint64(t.sinks), uint64(layerAt), uint64(x.Heads), uint64(x.KVHeads), c, ld, uint64(t.o.k), float(x.Scale)))
}
