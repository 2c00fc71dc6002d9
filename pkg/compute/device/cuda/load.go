package cuda

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// expert is a routed expert in its slot.
type expert struct {
	at                         cuda.Ptr // of the slot
	in, inBias, down, downBias cuda.Ptr // biases: 0 if there are none
}

// loader brings experts of a model to slots.
type loader struct {
	m       *model.Model
	kernels cuda.Kernels
	slots   *cuda.Slots
	health  *health
	ways    chan *way
	all     []*way
}

// newLoader lets so many loads run at once, with buffers of most bytes at most.
func newLoader(m *model.Model, k cuda.Kernels, driver cuda.Driver, slots *cuda.Slots, atOnce int, most int64, r *random, h *health) (_ *loader, err error) {
	l := &loader{m: m, kernels: k, slots: slots, health: h, ways: make(chan *way, atOnce)}
	defer func() { unmake(l, h, err) }()
	for range atOnce {
		w, err := newWay(driver, min(slots.Size(), most), h)
		if err != nil {
			return nil, err
		}
		w.random = r
		l.all = append(l.all, w)
		l.ways <- w
	}
	return l, nil
}

func (l *loader) Size(id forward.ExpertID) (int64, error) {
	if _, err := expertOf(l.m, id, l.kernels); err != nil {
		return 0, err
	}
	return l.slots.Size(), nil
}

// Load copies an expert to a slot, or has it made there, and waits for that however it
// ends: a slot that is free is written by nobody.
func (l *loader) Load(ctx context.Context, id forward.ExpertID) (*expert, error) {
	p, err := expertOf(l.m, id, l.kernels)
	if err != nil {
		return nil, err
	}
	slot, ok := l.slots.Take()
	if !ok { // the store asks for no more than there are
		return nil, fmt.Errorf("%w: all %d places for experts are taken", device.ErrOutOfMemory, l.slots.Count())
	}
	w := <-l.ways
	err = w.over(ctx, func(w *way) { w.copy(l.m.With(ctx), p, slot) })
	l.ways <- w
	if err != nil {
		l.slots.Give(slot)
		return nil, fmt.Errorf("bringing %v to the GPU: %w", id, err)
	}
	return newExpert(slot, p), nil
}

func newExpert(slot cuda.Ptr, p place) *expert {
	e := &expert{at: slot, in: slot + cuda.Ptr(p.in.at), down: slot + cuda.Ptr(p.down.at)}
	if p.inBias.at > 0 {
		e.inBias, e.downBias = slot+cuda.Ptr(p.inBias.at), slot+cuda.Ptr(p.downBias.at)
	}
	return e
}

func (l *loader) Free(e *expert) { l.slots.Give(e.at) }

func (l *loader) close(lost bool) {
	for _, w := range l.all {
		w.close(lost)
	}
	l.all = nil
}
