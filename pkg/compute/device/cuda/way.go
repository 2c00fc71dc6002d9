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
func overWay(driver cuda.Driver, bytes int64, h *health, r *random, write func(*way) error) error {
	w, err := newWay(driver, min(bytes, wayBytes), h)
	if err != nil {
		return err
	}
	w.random = r
	err = errors.Join(write(w), w.flush())
	w.close(h.Err() != nil)
	return err
}

// copy brings an expert to a slot. It returns early when ctx ends; flush has to follow.
func (w *way) copy(ctx context.Context, m *model.Model, p place, slot cuda.Ptr) error {
	w.to = slot
	for _, part := range []matrix{p.in, p.down} {
		if err := w.fillTo(ctx, slot+cuda.Ptr(part.at)); err != nil {
			return err
		}
		if err := w.matrix(ctx, m, part); err != nil {
			return err
		}
	}
	for _, bias := range []vector{p.inBias, p.downBias} {
		if len(bias.refs) == 0 {
			continue
		}
		if err := w.fillTo(ctx, slot+cuda.Ptr(bias.at)); err != nil {
			return err
		}
		if err := w.vector(ctx, m, bias); err != nil {
			return err
		}
	}
	return w.send(ctx)
}

// matrix reads tensors and checks their numbers; scales follow the last one. What is random
// is not read.
func (w *way) matrix(ctx context.Context, m *model.Model, p matrix) error {
	if all := w.random.of(m, p); all != nil {
		return w.generate(ctx, p, all)
	}
	if p.format == tiled {
		return w.tiles(ctx, m, p)
	}
	scales, row := make([]byte, p.format.scaleBytes(p.n, p.k)), 0
	for _, ref := range p.refs {
		t, err := weights(m, ref, p.format)
		if err != nil {
			return err
		}
		if err := w.rows(ctx, t.Data, int(p.format.rowBytes(p.k)), int(p.format.rowBytes(padded(p.k)))); err != nil {
			return err
		}
		putScales(scales, t, row, p.n)
		row += t.Shape[0]
	}
	return w.write(ctx, scales)
}

// weights reads a tensor whose numbers are finite.
func weights(m *model.Model, ref model.Ref, f format) (p model.Packed, err error) {
	if f.quantised() {
		p, err = m.Packed(ref)
	} else if p.Tensor, err = m.Tensor(ref); err == nil {
		if i := notFinite(p.Data); i >= 0 {
			return p, &NumberError{ref, i}
		}
	}
	if err != nil {
		return p, fmt.Errorf("reading weights: %w", err)
	}
	return p, nil
}

// rows writes rows of so many bytes, filled up with zeros to more.
func (w *way) rows(ctx context.Context, data []byte, bytes, filled int) error {
	if bytes == filled {
		return w.write(ctx, data)
	}
	for at := 0; at < len(data); at += bytes {
		if err := w.write(ctx, data[at:at+bytes]); err != nil {
			return err
		}
		if err := w.write(ctx, zeros[:filled-bytes]); err != nil {
			return err
		}
	}
	return nil
}

func (w *way) vector(ctx context.Context, m *model.Model, p vector) error {
	for _, ref := range p.refs {
		f, err := m.Floats(ref)
		if err != nil {
			return fmt.Errorf("reading a bias: %w", err)
		}
		if i := notFiniteFloat(f); i >= 0 {
			return &NumberError{ref, i}
		}
		if err := w.write(ctx, floatBytes(f)); err != nil {
			return err
		}
	}
	return nil
}

var zeros [cuda.Align]byte

// fillTo writes zeros up to an address, as places are aligned.
func (w *way) fillTo(ctx context.Context, at cuda.Ptr) error {
	gap := int(at) - int(w.to) - w.buffers[w.now].used
	return w.write(ctx, zeros[:gap])
}

// write appends to what goes to the slot.
func (w *way) write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		b := &w.buffers[w.now]
		n := copyWide(b.data[b.used:], data)
		b.used += n
		data = data[n:]
		if b.used == len(b.data) {
			if err := w.send(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// send gives the GPU what was written, unless ctx has ended.
func (w *way) send(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.give()
}

// give copies the buffer that is filled, and goes on with the other one once that is
// free.
func (w *way) give() error {
	b := &w.buffers[w.now]
	if b.used == 0 {
		return nil
	}
	if err := w.stream.CopyIn(w.to, b.data[:b.used]); err != nil {
		return b.copied.health.judge(err)
	}
	w.to += cuda.Ptr(b.used)
	if err := b.copied.record(w.stream); err != nil {
		return err
	}
	b.under = true
	w.now = 1 - w.now
	return w.buffers[w.now].await()
}

// await waits until the buffer's copy is over.
func (b *buffer) await() error {
	b.used = 0
	if !b.under {
		return nil
	}
	b.under = false
	return b.copied.wait()
}

func (w *way) flush() error {
	return errors.Join(w.buffers[0].await(), w.buffers[1].await())
}

func (w *way) close(lost bool) {
	for _, b := range w.buffers {
		release(w.driver, nil, b.copied, lost, b.data)
	}
	release(w.driver, w.stream, nil, lost)
}
