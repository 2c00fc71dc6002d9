package cuda

import (
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Attend computes a layer's norms and attention, and brings to the host what the
// layer's experts compute.
func (l *stepLane) Attend(i int) ([]float32, error) {
	t := &l.b.layers[i]
	l.compute(piece{i, attendPiece})
	if !t.spec.MoE {
		return nil, failed(l.err)
	}
	l.flush()
	out := l.out[:4*len(l.rows)*l.b.sizes.hidden]
	l.copyOut(out, l.ffnInput(t))
	if err := l.wait(); err != nil {
		return nil, err
	}
	return view[float32](out, 0), nil
}

func (l *stepLane) attendLayer(t *backboneLayer) {
	l.split(l.before(t, &t.norm), l.b.sizes.hidden, l.n, 0)
	if t.latent != nil {
		l.latent(t)
	} else {
		l.project(l.at.qkv, &t.qkv, l.n, l.table(l.tables.tiles), l.tiles, false)
		l.turn(t)
		l.attend(t)
	}
	l.residual(t, &t.o, &t.norm)
	if t.cross != nil {
		l.attendCross(t)
	}
	l.before(t, &t.ffnNorm)
}

// before returns what a block of the layer takes: x, or its norm.
func (l *stepLane) before(t *backboneLayer, w *normWeights) cuda.Ptr {
	if t.spec.Order == model.NormBefore {
		l.norm(l.at.norm, l.x(), w, l.n)
	}
	return l.ffnInput(t)
}

// ffnInput returns what Attend has returned, on the GPU.
func (l *stepLane) ffnInput(t *backboneLayer) cuda.Ptr {
	if t.spec.Order == model.NormBefore {
		return l.at.norm
	}
	return l.x()
}

// residual adds the buffer attn through a matrix to x.
func (l *stepLane) residual(t *backboneLayer, o *weight, w *normWeights) {
	l.split(l.at.attn, o.k, l.n, 0)
	l.project(l.x(), o, l.n, l.table(l.tables.tiles), l.tiles, true)
	l.after(t, w)
}

// after normalises x behind a block, where the layer does so.
func (l *stepLane) after(t *backboneLayer, w *normWeights) {
	if t.spec.Order == model.NormAfter {
		l.norm(l.x(), l.x(), w, l.n)
	}
}

// norm is dst (rows, D) of x (rows, D), which may be dst.
func (l *stepLane) norm(dst, x cuda.Ptr, w *normWeights, rows int) {
	d := uint64(l.b.sizes.hidden)
	if w.bias != 0 {
		l.launch(l.b.kernels.layerNorm, rows, 1, 1, 256, 0, append(l.args[:0],
			uint64(dst), uint64(x), uint64(w.weight), uint64(w.bias), d, d, d, float(w.eps)))
		return
	}
	l.launch(l.b.kernels.rmsNorm, rows, 1, 1, 256, 0, append(l.args[:0],
		uint64(dst), uint64(x), uint64(w.weight), d, 1, d, d, float(w.eps)))
}

func float(f float32) uint64 { return uint64(math.Float32bits(f)) }

// split makes planes of rows x of k elements; source, if it is not 0, says of which.
func (l *stepLane) split(x cuda.Ptr, k, rows int, source cuda.Ptr) {
	l.launch(l.b.kernels.split, rows, 1, 1, 128, 0, append(l.args[:0],
		uint64(l.at.planes), uint64(x), uint64(source), 0, uint64(k), uint64(padded(k)), uint64(k), uint64(l.b.sizes.rows)))
}

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
	x, n, ld := &t.spec.Mixer, l.n, uint64(t.qkv.n)
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
	l.launch(l.b.kernels.rope, heads, l.n, 1, 32, 0, append(l.args[:0],
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
		l.launch(kernel, l.n*units, 1, 1, threads, 0, append(l.args[:0],
			uint64(at), uint64(at), uint64(side.weight), uint64(width), uint64(units), ld, ld, eps))
		at += cuda.Ptr(4 * side.heads * x.HeadDim)
	}
}

// attend stores keys and values, and fills the buffer attn (rows, H·C).
func (l *stepLane) attend(t *backboneLayer) {
	x, end := &t.spec.Mixer, l.tables.end
	if x.Bidirectional {
		end = l.tables.source
	}
	l.store(x, t.place, l.at.qkv+cuda.Ptr(4*x.Heads*x.HeadDim), t.qkv.n)
	l.query(x, t.place, t.qkv.n, end, t.sinks)
}

// attendCross adds what an encoder has read to x.
func (l *stepLane) attendCross(t *backboneLayer) {
	c, n := t.cross, l.n
	l.split(l.before(t, &c.norm), l.b.sizes.hidden, n, 0)
	l.project(l.at.qkv, &c.q, n, l.table(l.tables.tiles), l.tiles, false)
	l.query(&t.spec.Mixer, c.place, c.q.n, l.tables.source, 0)
	l.residual(t, &c.o, &c.norm)
}

// remember stores the keys and values of the encoder's output x for the decoder's layers.
func (l *stepLane) remember() {
	n := l.n
	l.split(l.x(), l.b.sizes.hidden, n, 0)
	for i := range l.b.layers {
		t := &l.b.layers[i]
		if t.cross == nil {
			continue
		}
		l.project(l.at.qkv, &t.cross.kv, n, l.table(l.tables.tiles), l.tiles, false)
		l.store(&t.spec.Mixer, t.cross.place, l.at.qkv, t.cross.kv.n)
	}
}

// store writes keys and the values behind them, ld elements from row to row, into a place
// of the cache.
func (l *stepLane) store(x *model.MixerSpec, place int, keys cuda.Ptr, ld int) {
	g, layerAt := l.b.pool.At(place)
	l.launch(l.b.kernels.store, x.KVHeads, l.n, 1, 32, 0, append(l.args[:0],
		uint64(keys), uint64(keys+cuda.Ptr(4*x.KVHeads*x.HeadDim)), uint64(l.table(l.tables.position)), uint64(l.table(l.tables.pagesAt[g])),
		uint64(l.table(l.tables.pages)), uint64(layerAt), uint64(ld), uint64(x.HeadDim), uint64(paddedHead(x.HeadDim))))
}

// query fills the buffer attn (rows, H·C) of queries in the buffer qkv, rowLen elements from row
// to row, over a place of the cache up to where the table of that name says.
func (l *stepLane) query(x *model.MixerSpec, place, rowLen, ends int, sinks cuda.Ptr) {
	k, share, ldout := l.b.kernels.attend[paddedHead(x.HeadDim)], x.Heads/x.KVHeads, x.Heads*x.HeadDim
	g, layerAt := l.b.pool.At(place)
	ld, c := uint64(rowLen), uint64(x.HeadDim)
	start, end := l.table(l.tables.start[g]), l.table(ends)
	pagesAt, pages := l.table(l.tables.pagesAt[g]), l.table(l.tables.pages)
	for _, s := range l.stretches {
		from, rows := cuda.Ptr(s.from), s.to-s.from
		l.launch(k.split, s.splits, x.KVHeads*ceil(share, 16), rows, k.splitThreads, k.splitShared, append(l.args[:0],
			uint64(l.at.parts), uint64(l.at.qkv)+uint64(4*s.from)*ld, uint64(start+4*from), uint64(end+4*from), uint64(pagesAt+4*from),
			uint64(pages), uint64(layerAt), uint64(x.Heads), uint64(x.KVHeads), c, ld, uint64(s.splits), float(x.Scale)))
		l.launch(k.merge, x.Heads, rows, 1, uint32(k.width), 0, append(l.args[:0],
			uint64(l.at.attn)+uint64(4*s.from*ldout), uint64(l.at.parts), uint64(start+4*from), uint64(end+4*from), uint64(sinks),
			uint64(x.Heads), c, uint64(ldout), uint64(s.splits)))
	}
	blocks := 1
	if k.width == wideHead {
		blocks = ceil(l.b.sizes.tileRows()*share, 32)
	}
	l.launch(k.tile, x.KVHeads, l.spans, blocks, k.tileThreads, k.tileShared, append(l.args[:0],
		uint64(l.at.attn), uint64(l.at.qkv), uint64(start), uint64(end), uint64(pagesAt), uint64(pages), uint64(l.table(l.tables.spans)),
		uint64(sinks), uint64(layerAt), uint64(x.Heads), uint64(x.KVHeads), c, ld, uint64(ldout), float(x.Scale)))
}
