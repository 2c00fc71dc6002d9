package cuda

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// way is what one load at a time goes over: two pinned buffers, of which one is
// filled while the other is copied.
type way struct {
	driver  cuda.Driver
	stream  cuda.Stream
	buffers [2]buffer
	now     int // the buffer that is filled
	to      cuda.Ptr
	random  *random // or nil
	ctx     context.Context
	err     error // the first one of over
}

// buffer is pinned memory, filled up to used.
type buffer struct {
	data   []byte
	used   int
	copied *waiter
	under  bool // way: its copy, or a launch, may go on
}

// wayBytes is the most of a buffer; an expert that is smaller goes over in one copy.
const wayBytes = 32 << 20

func newWay(driver cuda.Driver, bytes int64, h *health) (_ *way, err error) {
	w := &way{driver: driver}
	defer func() { unmake(w, h, err) }()
	if w.stream, err = driver.NewStream(); err != nil {
		return nil, fmt.Errorf("making a stream for loads: %w", err)
	}
	for i := range w.buffers {
		b := &w.buffers[i]
		if b.data, err = driver.Pin(bytes); err == nil {
			b.copied, err = newWaiter(driver, h)
		}
		if err != nil {
			return nil, fmt.Errorf("making buffers for loads: %w", err)
		}
	}
	return w, nil
}

// overWay has a way for so many bytes while write copies them, or makes those that are random.
func overWay(ctx context.Context, driver cuda.Driver, bytes int64, h *health, r *random, write func(*way)) error {
	w, err := newWay(driver, min(bytes, wayBytes), h)
	if err != nil {
		return err
	}
	w.random = r
	err = w.over(ctx, write)
	w.close(h.Err() != nil)
	return err
}

// over has write bring things over the way, and waits until all of them are there. After the first error, or when
// ctx ends, nothing more goes over.
func (w *way) over(ctx context.Context, write func(*way)) error {
	w.ctx, w.err = ctx, nil
	write(w)
	w.send()
	return errors.Join(w.err, w.flush())
}

func (w *way) flush() error {
	return errors.Join(w.buffers[0].await(), w.buffers[1].await())
}

func (w *way) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *way) copy(m *model.Model, p place, slot cuda.Ptr) {
	w.to = slot
	for _, part := range []matrix{p.in, p.down} {
		w.fillTo(slot + cuda.Ptr(part.at))
		w.matrix(m, part)
	}
	for _, bias := range []vector{p.inBias, p.downBias} {
		if len(bias.refs) > 0 {
			w.fillTo(slot + cuda.Ptr(bias.at))
			w.vector(m, bias)
		}
	}
}

// matrix reads tensors and checks their numbers; scales follow the last one. What is random
// is not read.
func (w *way) matrix(m *model.Model, p matrix) {
	if all := w.random.of(m, p); all != nil {
		w.generate(p, all)
		return
	}
	if p.format == tiled {
		w.tiles(m, p)
		return
	}
	scales, row := make([]byte, p.format.scaleBytes(p.n, p.k)), 0
	for _, ref := range p.refs {
		t := w.weights(m, ref, p.format)
		if w.err != nil {
			return
		}
		w.rows(t.Data, int(p.format.rowBytes(p.k)), int(p.format.rowBytes(padded(p.k))))
		putScales(scales, t, row, p.n)
		row += t.Shape[0]
	}
	w.write(scales)
}

func (w *way) weights(m *model.Model, ref model.Ref, f format) (p model.Packed) {
	var err error
	if f.quantised() {
		p, err = m.Packed(ref)
	} else if p.Tensor, err = m.Tensor(ref); err == nil {
		if i := notFinite(p.Data); i >= 0 {
			w.fail(&NumberError{ref, i})
		}
	}
	if err != nil {
		w.fail(fmt.Errorf("reading weights: %w", err))
	}
	return p
}

// rows writes rows of so many bytes, filled up with zeros to more.
func (w *way) rows(data []byte, bytes, filled int) {
	if bytes == filled {
		w.write(data)
		return
	}
	for at := 0; at < len(data) && w.err == nil; at += bytes {
		w.write(data[at : at+bytes])
		w.write(zeros[:filled-bytes])
	}
}

func (w *way) vector(m *model.Model, p vector) {
	for _, ref := range p.refs {
		w.write(w.floats(m, ref, "reading a bias: %w"))
	}
}

// floats reads a tensor as numbers of float32, which are finite.
func (w *way) floats(m *model.Model, ref model.Ref, act string) []byte {
	f, err := m.Floats(ref)
	if err != nil {
		w.fail(fmt.Errorf(act, err))
		return nil
	}
	if i := notFiniteFloat(f); i >= 0 {
		w.fail(&NumberError{ref, i})
	}
	return floatBytes(f)
}

var zeros [cuda.Align]byte

func (w *way) fillTo(at cuda.Ptr) {
	if w.err == nil {
		w.write(zeros[:int(at)-int(w.to)-w.buffers[w.now].used])
	}
}

func (w *way) write(data []byte) {
	for len(data) > 0 && w.err == nil {
		b := &w.buffers[w.now]
		n := copyWide(b.data[b.used:], data)
		b.used += n
		data = data[n:]
		if b.used == len(b.data) {
			w.send()
		}
	}
}

// send copies the buffer that is filled, and goes on with the other one once that is free.
func (w *way) send() {
	w.fail(w.ctx.Err())
	b := &w.buffers[w.now]
	if w.err != nil || b.used == 0 {
		return
	}
	if err := w.stream.CopyIn(w.to, b.data[:b.used]); err != nil {
		w.fail(b.copied.health.judge(err))
		return
	}
	w.to += cuda.Ptr(b.used)
	if w.fail(b.copied.record(w.stream)); w.err != nil {
		return
	}
	b.under = true
	w.now = 1 - w.now
	w.fail(w.buffers[w.now].await())
}

func (b *buffer) await() error {
	b.used = 0
	if !b.under {
		return nil
	}
	b.under = false
	return b.copied.wait()
}

func (w *way) close(lost bool) {
	for _, b := range w.buffers {
		release(w.driver, nil, b.copied, lost, b.data)
	}
	release(w.driver, w.stream, nil, lost)
}
