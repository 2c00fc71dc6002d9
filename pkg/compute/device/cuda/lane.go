package cuda

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// lane is what one call at a time computes with.
type lane struct {
	driver  cuda.Driver
	stream  cuda.Stream
	done    *waiter
	kernels *kernels
	shape   shape
	buffers buffers
	in, out []byte // pinned: tables and rows to the GPU, results from there
	work    []int32
	first   []int32  // entry of each row, of sums
	sources []uint32 // of a piece of sums
	call    call
	launch  launches
}

type buffers struct {
	upload cuda.Ptr // tables and rows, as the lane's in
	x      cuda.Ptr // planes (P, rows, Dp)
	act    cuda.Ptr // planes (P, rows, Fp)
	out    cuda.Ptr // (rows, D)
}

func (b *buffers) at(from int) cuda.Ptr { return b.upload + cuda.Ptr(from) }

// newLane makes buffers for as many rows as the shape says.
func newLane(driver cuda.Driver, a *cuda.Arena, k *kernels, s shape, h *health) (_ *lane, err error) {
	l := &lane{driver: driver, kernels: k, shape: s}
	defer func() { unmake(l, h, err) }()
	upload := int64(tablesOf(s.rows, s.rows, s.rows, s.rows, s.hidden, true).end)
	out := 4 * int64(s.rows) * int64(s.hidden)
	plane := 2 * int64(s.parts) * int64(s.rows)
	for _, b := range []struct {
		to    *cuda.Ptr
		bytes int64
	}{{&l.buffers.upload, upload}, {&l.buffers.x, plane * int64(padded(s.hidden))}, {&l.buffers.act, plane * int64(padded(s.width))}, {&l.buffers.out, out}} {
		if *b.to, err = a.Take(b.bytes, "a lane"); err != nil {
			return nil, err
		}
	}
	if l.stream, err = driver.NewStream(); err != nil {
		return nil, fmt.Errorf("making a stream: %w", err)
	}
	if l.done, err = newWaiter(driver, h); err != nil {
		return nil, err
	}
	if l.in, err = driver.Pin(upload); err == nil {
		l.out, err = driver.Pin(out)
	}
	if err != nil {
		return nil, fmt.Errorf("pinning memory: %w", err)
	}
	return l, nil
}

func (l *lane) close(lost bool) { release(l.driver, l.stream, l.done, lost, l.in, l.out) }

// compute computes a call, in several pieces if it has more rows than the lane.
func (l *lane) compute(from *device.Store[*expert], in forward.Routed, out []float32, read *int64) error {
	l.call.sums = false
	l.call.sort(in)
	l.work = append(l.work[:0], l.call.order...)
	for work := l.work; len(work) > 0; {
		n := min(len(work), l.shape.rows)
		l.call.order = append(l.call.order[:0], work[:n]...)
		if err := l.piece(from, in, read); err != nil {
			return err
		}
		results, d := view[float32](l.out, 0), l.shape.hidden
		eachRow(n, d, func(i int) { copy(out[int(l.call.order[i])*d:][:d], results[i*d:]) })
		work = work[n:]
	}
	return nil
}

// sums computes a call and adds up each row's entries, in several pieces of whole rows if it
// has more entries than the lane has rows.
func (l *lane) sums(from *device.Store[*expert], in forward.Routed, out []float32, read *int64) error {
	l.call.sums = true
	l.first = in.FirstEntries(l.first)
	d := l.shape.hidden
	for row := 0; row < len(l.first)-1; {
		end := l.endOfPiece(row)
		piece := l.pieceOf(in, row, end)
		l.call.sort(piece)
		if err := l.piece(from, piece, read); err != nil {
			return err
		}
		copyWide(out[row*d:end*d], view[float32](l.out, 0))
		row = end
	}
	return nil
}

// endOfPiece returns the first row behind those that the lane has room for together with a row.
func (l *lane) endOfPiece(row int) (end int) {
	for end = row + 1; end+1 < len(l.first) && int(l.first[end+1]-l.first[row]) <= l.shape.rows; {
		end++
	}
	return end
}

// pieceOf returns the call of the rows from one to another.
func (l *lane) pieceOf(in forward.Routed, row, end int) forward.Routed {
	from, to, d := l.first[row], l.first[end], l.shape.hidden
	l.sources = l.sources[:0]
	for _, source := range in.Source[from:to] {
		l.sources = append(l.sources, source-uint32(row))
	}
	return forward.Routed{Layer: in.Layer, X: in.X[row*d : end*d], Source: l.sources, Expert: in.Expert[from:to], Weight: in.Weight[from:to]}
}

// piece computes what the call's order lists; the results are in out. Its experts are borrowed until the GPU
// has passed the last kernel, or is lost.
func (l *lane) piece(from *device.Store[*expert], in forward.Routed, read *int64) error {
	c, d := &l.call, l.shape.hidden
	c.group(in)
	if err := c.borrow(from); err != nil {
		return err
	}
	defer c.giveBack(from)
	c.gather(in, d)
	c.cut(l.kernels.variantFor(l.shape.layers[c.layer].format, c.longest).tile)
	c.tables = tablesOf(len(c.groups), len(c.tiles), len(c.order), len(c.rows), d, c.sums)
	c.write(l.in, in, d)
	err := l.done.health.judge(l.start())
	if waited := l.finish(); err == nil {
		err = waited
	}
	if err != nil {
		return fmt.Errorf("computing on the GPU: %w", err)
	}
	*read += int64(len(c.groups)) * l.shape.slot
	return nil
}

func (l *lane) start() error {
	l.launch.fill(l.kernels, l.shape, &l.buffers, &l.call)
	if err := l.stream.CopyIn(l.buffers.upload, l.in[:l.call.tables.end]); err != nil {
		return err
	}
	for _, k := range []*cuda.Launch{&l.launch.split, &l.launch.in, &l.launch.down} {
		if err := l.stream.Launch(k); err != nil {
			return err
		}
	}
	rows, results := len(l.call.order), l.buffers.out
	if l.call.sums {
		if err := l.stream.Launch(&l.launch.sum); err != nil {
			return err
		}
		rows, results = len(l.call.rows), l.buffers.at(l.call.tables.x)
	}
	return l.stream.CopyOut(l.out[:4*rows*l.shape.hidden], results)
}

// finish waits until the GPU is behind what it was given, however much that was.
func (l *lane) finish() error {
	if err := l.done.record(l.stream); err != nil {
		return err
	}
	return l.done.wait()
}
