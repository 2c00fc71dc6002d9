package cuda

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
)

// stepLane computes one step at a time: a stream, pinned buffers, and memory on the GPU.
type stepLane struct {
	launcher
	b        *Backbone
	done     *waiter
	progress *forward.Progress

	at     stepBuffers
	in     []byte // pinned: a step's tables and rows
	head   []byte // pinned: which rows want logits
	out    []byte // pinned: what goes to experts
	block  []byte // pinned: what comes from them
	logits []byte // pinned

	rows      []forward.Row
	n         int // rows that launches are for: those, or more by the step's shape
	tables    stepTables
	tiles     int // of matrices
	spans     int // tiles of attention
	stretches []stretch
	graphs
}

var _ forward.Lane = (*stepLane)(nil)

type stepBuffers struct {
	upload        cuda.Ptr // tables and rows, as the lane's in
	norm          cuda.Ptr // (rows, D)
	qkv, attn     cuda.Ptr // (rows, widest)
	planes, act   cuda.Ptr // (P, rows, widest) of bf16: inputs of matrices, and of networks' second ones
	block, shared cuda.Ptr // (rows, D)
	gate          cuda.Ptr // (rows)
	parts         cuda.Ptr // of splits
	head          cuda.Ptr // as the lane's head
	logits        cuda.Ptr
	latent        latentBuffers
}

// stretch is rows one after the other, each of which is attended in splits: as many as
// the lane has room for.
type stretch struct{ from, to, splits int }

// newStepLane takes all that a lane will ever need.
func newStepLane(b *Backbone) (_ *stepLane, err error) {
	z := &b.sizes
	l := &stepLane{b: b, launcher: launcher{health: b.health}}
	defer func() { unmake(l, b.health, err) }()
	page := kvcache.ShapeOf(b.spec)
	b.blocks(page)
	l.tables.place(z, z.rows, z.mostPages(b.arena.Size(), page.DevicePage()))
	upload, head := l.tables.bytes, 32*z.logits
	rows, plane := 4*z.rows, 2*z.parts*z.rows
	for _, m := range []struct {
		to    *cuda.Ptr
		bytes int
	}{
		{&l.at.upload, upload},
		{&l.at.norm, rows * z.hidden},
		{&l.at.qkv, rows * z.qkv},
		{&l.at.attn, rows * z.attn},
		{&l.at.planes, plane * max(padded(z.hidden), padded(z.attn))},
		{&l.at.act, plane * padded(z.width)},
		{&l.at.block, rows * z.hidden},
		{&l.at.shared, rows * z.hidden},
		{&l.at.gate, rows},
		{&l.at.parts, 4 * z.partFloats},
		{&l.at.head, head},
		{&l.at.logits, 4 * z.logits * z.vocab},
		{&l.at.latent.line, rows * z.line},
		{&l.at.latent.lines, rows * z.heads * z.line},
		{&l.at.latent.sums, rows * z.heads * z.rank},
		{&l.at.latent.planes, plane * z.heads * z.perHead},
	} {
		if *m.to, err = b.arena.Take(int64(m.bytes), "a lane of attention"); err != nil {
			return nil, err
		}
	}
	if l.stream, err = b.driver.NewStream(); err != nil {
		return nil, fmt.Errorf("making a stream: %w", err)
	}
	if l.done, err = newWaiter(b.driver, b.health); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		to    *[]byte
		bytes int
	}{{&l.in, upload}, {&l.head, head}, {&l.out, rows * z.hidden}, {&l.block, rows * z.hidden}, {&l.logits, 4 * z.logits * z.vocab}} {
		if *m.to, err = b.driver.Pin(int64(m.bytes)); err != nil {
			return nil, fmt.Errorf("pinning memory: %w", err)
		}
	}
	return l, nil
}

func (l *stepLane) close(lost bool) {
	if !lost {
		l.closeGraphs()
	}
	release(l.b.driver, l.stream, l.done, lost, l.in, l.head, l.out, l.block, l.logits)
}

func (l *stepLane) x() cuda.Ptr { return l.table(l.tables.x) }

func (l *stepLane) table(from int) cuda.Ptr { return l.at.upload + cuda.Ptr(from) }

func (l *stepLane) Begin(rows []forward.Row) error {
	if n := l.b.sizes.rows; len(rows) > n {
		return fmt.Errorf("a step of %d rows; the GPU's buffers are for %d", len(rows), n)
	}
	if l.err = l.health.Err(); l.err != nil {
		return failed(l.err)
	}
	l.rows = rows
	l.layOut()
	l.copyIn(l.at.upload, l.in[:l.tables.bytes])
	return failed(l.err)
}

func (l *stepLane) layOut() {
	z, pages := &l.b.sizes, 1
	l.choose()
	if l.n = len(l.rows); l.now != nil {
		l.n = l.now.rows
	}
	runs(l.rows, func(from, to int) { pages += len(z.sights) * kvcache.PagesFor(reach(&l.rows[to-1])) })
	l.tables.place(z, l.n, pages)
	l.b.embed.Fill(view[float32](l.in, l.tables.x)[:len(l.rows)*z.hidden], l.rows)
	l.tiles = cutTiles(view[tile](l.in, l.tables.tiles), len(l.rows), l.n, l.b.kernels.tileFor(l.n))
	l.layOutRows()
	l.layOutSights()
	l.layOutHeads()
	l.cutAttention()
}

// layOutRows fills what depends on a row alone.
func (l *stepLane) layOutRows() {
	z, t := &l.b.sizes, &l.tables
	end, source := view[uint32](l.in, t.end), view[uint32](l.in, t.source)
	position, angle := view[uint32](l.in, t.position), view[uint32](l.in, t.angle)
	for i := len(l.rows); i < l.n; i++ {
		end[i], source[i], position[i], angle[i] = 0, 0, 0, 0
	}
	for i := range l.rows {
		r := &l.rows[i]
		end[i], source[i], position[i], angle[i] = uint32(r.Position+1), uint32(r.Source), uint32(r.Position), uint32(i)
		for j, turn := range l.b.turns {
			cos, sin := turn.Angles(r)
			copy(view[float32](l.in, t.cos[j])[i*z.turns[j]:], cos)
			copy(view[float32](l.in, t.sin[j])[i*z.turns[j]:], sin)
		}
		for j, of := range z.temperatures {
			view[float32](l.in, t.temperature[j])[i] = forward.Temperature(of, r.Position)
		}
	}
}

// layOutSights fills where rows begin to see, and the pages of their sequences.
func (l *stepLane) layOutSights() {
	pages := view[uint64](l.in, l.tables.pages)[:1]
	pages[0] = uint64(l.b.scratch)
	for g := range l.b.sizes.sights {
		start, pagesAt := view[uint32](l.in, l.tables.start[g]), view[uint32](l.in, l.tables.pagesAt[g])
		for i := len(l.rows); i < l.n; i++ {
			start[i], pagesAt[i] = 0, 0
		}
		runs(l.rows, func(from, to int) {
			at := uint32(len(pages))
			pages = l.rows[from].Table.Addresses(pages, g, reach(&l.rows[to-1]))
			for i := from; i < to; i++ {
				start[i], pagesAt[i] = uint32(l.b.pool.First(g, l.rows[i].Position)), at
			}
		})
	}
}

// cutAttention decides how rows are attended: many of a sequence in tiles, others in
// splits. The bits are the same.
func (l *stepLane) cutAttention() {
	z, spans := &l.b.sizes, view[tile](l.in, l.tables.spans)
	l.spans, l.stretches = 0, l.stretches[:0]
	if l.now != nil {
		l.stretchShape(l.now.stepShape)
		return
	}
	runs(l.rows, func(from, to int) {
		if !l.inTiles(to - from) {
			l.stretch(from, to)
			return
		}
		most := z.tileRows()
		for ; from < to; from += most {
			spans[l.spans] = tile{0, uint32(from), uint32(min(most, to-from)), 0}
			l.spans++
		}
	})
}

func (l *stepLane) inTiles(rows int) bool {
	return rows >= tileRows && l.b.sizes.tileRows() > 0 && l.b.kernels.tiled
}

// stretch adds rows to those that are attended in splits.
func (l *stepLane) stretch(from, to int) {
	z := &l.b.sizes
	for i := from; i < to; i++ {
		splits := ceil(reach(&l.rows[i]), splitPositions)
		if last := len(l.stretches) - 1; last >= 0 {
			s := &l.stretches[last]
			most := max(s.splits, splits)
			if s.to == i && (i+1-s.from)*most*z.perSplit <= z.partFloats {
				s.to, s.splits = i+1, most
				continue
			}
		}
		l.stretches = append(l.stretches, stretch{i, i + 1, splits})
	}
}

// reach is behind the last position that a row sees, of its own or of what an encoder reads.
func reach(r *forward.Row) int { return max(r.Position+1, r.Source) }

// runs calls f for the rows of each sequence.
func runs(rows []forward.Row, f func(from, to int)) {
	for from, i := 0, 0; i < len(rows); i++ {
		if i+1 == len(rows) || rows[i+1].Table != rows[i].Table {
			f(from, i+1)
			from = i + 1
		}
	}
}

// cutTiles cuts room for rows of one group, so many of which are there, into tiles of at most so many.
func cutTiles(tiles []tile, rows, room, most int) (n int) {
	for from := 0; from < room; from += most {
		tiles[n] = tileFrom(0, from, rows, most)
		n++
	}
	return n
}

// tileFrom returns a tile of a group from a row on, up to the last one before end.
func tileFrom(group, from, end, most int) tile {
	return tile{uint32(group), uint32(from), uint32(max(0, min(most, end-from))), 0}
}

// wait returns when the GPU is behind what it was given, however much that was.
func (l *stepLane) wait() error {
	l.settle(l.done)
	l.progress.Tick()
	return failed(l.err)
}

// End waits for what was begun. An encoder's output is left to the decoder before.
func (l *stepLane) End() ([]float32, error) {
	l.flush()
	if !forward.Encodes(l.rows) {
		return nil, l.wait()
	}
	l.remember()
	out := l.out[:4*len(l.rows)*l.b.sizes.hidden]
	l.copyOut(out, l.x())
	if err := l.wait(); err != nil {
		return nil, err
	}
	return view[float32](out, 0), nil
}
