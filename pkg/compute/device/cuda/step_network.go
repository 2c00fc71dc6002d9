package cuda

import "github.com/switchyard/switchyard/kernels/cuda"

// network is out (rows, D) of x (rows, D) through a network, or that added to what is
// there.
func (l *stepLane) network(w *network, x, out cuda.Ptr, add bool) {
	n, tiles := l.n, l.table(l.tables.tiles)
	l.split(x, l.b.sizes.hidden, n, 0)
	v := l.b.kernels.variantFor(w.in.format, n)
	kernel, features := v.up, v.features
	if w.spec.Activation.Gated() {
		kernel, features = v.in, v.features/2
	}
	plane, fp := uint64(l.b.sizes.rows), padded(w.spec.Width)
	l.launch(kernel, ceil(fp, features)*l.tiles, 1, 1, v.block, v.shared, append(l.args[:0],
		uint64(l.at.act), uint64(l.at.planes), uint64(tiles), uint64(w.in.entry), uint64(w.spec.Width), uint64(fp), uint64(padded(w.in.k)),
		plane, plane, uint64(l.tiles), uint64(w.spec.Activation), float(w.spec.Limit)))
	l.projectFrom(l.at.act, out, &w.down, n, tiles, l.tiles, add)
}

func (l *stepLane) Dense(i int) error {
	l.compute(piece{i, densePiece})
	return failed(l.err)
}

func (l *stepLane) Shared(i int) error {
	l.compute(piece{i, sharedPiece})
	l.flush()
	return failed(l.err)
}

func (l *stepLane) shared(t *backboneLayer) {
	l.network(t.shared, l.ffnInput(t), l.at.shared, false)
	if t.sharedGate.n > 0 { // its input is still in the planes
		l.project(l.at.gate, &t.sharedGate, l.n, l.table(l.tables.tiles), l.tiles, false)
		l.launch(l.b.kernels.gateRows, l.n, 1, 1, 128, 0, append(l.args[:0], uint64(l.at.shared), uint64(l.at.gate), uint64(l.b.sizes.hidden)))
	}
}

func (l *stepLane) Block() []float32 { return view[float32](l.block, 0)[:len(l.rows)*l.b.sizes.hidden] }

// Combine adds what the routed experts gave to that of the shared one, and both to x.
func (l *stepLane) Combine(i int) error {
	l.copyIn(l.at.block, l.block[:4*len(l.rows)*l.b.sizes.hidden])
	l.compute(piece{i, combinePiece})
	return failed(l.err)
}

func (l *stepLane) combine(t *backboneLayer) {
	n := l.n * l.b.sizes.hidden
	if t.shared != nil {
		l.add(l.at.block, l.at.shared, n)
	}
	l.add(l.x(), l.at.block, n)
	l.after(t, &t.ffnNorm)
}

func (l *stepLane) add(to, from cuda.Ptr, n int) {
	l.launch(l.b.kernels.addRows, ceil(n, 256), 1, 1, 256, 0, append(l.args[:0], uint64(to), uint64(from), uint64(n)))
}

// Logits computes as many as the lane has room for.
func (l *stepLane) Logits(rows []int) ([]float32, error) {
	h, n := &l.b.head, min(len(rows), l.b.sizes.logits)
	source, tiles := view[uint32](l.head, 16*n), view[tile](l.head, 0)
	for i, row := range rows[:n] {
		source[i] = uint32(row)
	}
	count := cutTiles(tiles, n, n, l.b.kernels.tileFor(n))
	l.copyIn(l.at.head, l.head[:20*n])
	x := l.x()
	if h.norm.weight != 0 {
		x = l.at.norm
		l.norm(x, l.x(), &h.norm, len(l.rows))
	}
	l.split(x, l.b.sizes.hidden, n, l.at.head+cuda.Ptr(16*n))
	if h.dense.n > 0 {
		l.headDense(n, count)
	}
	l.project(l.at.logits, &h.matrix, n, l.at.head, count, false)
	out := l.logits[:4*n*l.b.sizes.vocab]
	l.copyOut(out, l.at.logits)
	if err := l.wait(); err != nil {
		return nil, err
	}
	return view[float32](out, 0), nil
}

// headDense takes n rows in the planes through the matrix in front of the LM head.
func (l *stepLane) headDense(n, count int) {
	h, d := &l.b.head, l.b.sizes.hidden
	l.project(l.at.block, &h.dense, n, l.at.head, count, false)
	l.launch(l.b.kernels.activateRows, ceil(n*d, 256), 1, 1, 256, 0, append(l.args[:0],
		uint64(l.at.block), uint64(n*d), uint64(l.b.spec.Head.DenseActivation)))
	l.norm(l.at.block, l.at.block, &h.denseNorm, n)
	l.split(l.at.block, d, n, 0)
}
