// Package devicetest has a device with fault injection, and the tests that
// every device must pass.
package devicetest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Bytes is the size of each of the fake's experts.
const Bytes = 100

// Fake is a device whose experts multiply: expert e makes (e+1)·weight·x of a
// row x. Faults say how its loads go.
type Fake struct {
	*device.Store[*weights]
	Faults *Faults
	live   *atomic.Int64
}

var _ device.Device = (*Fake)(nil)

// weights of the fake's expert. They are unusable once freed.
type weights struct {
	factor float32
	bytes  int64
	freed  atomic.Bool
}

// NewFake returns a device for a model of so many layers and experts in each.
func NewFake(layers, experts int, s device.Settings) *Fake {
	return NewSizedFake(layers, experts, func(forward.ExpertID) int64 { return Bytes }, s)
}

// NewSizedFake is NewFake with experts of different sizes.
func NewSizedFake(layers, experts int, size func(forward.ExpertID) int64, s device.Settings) *Fake {
	l := &loader{faults: &Faults{}, size: size}
	return &Fake{Store: device.NewStore(layers, experts, l, s), Faults: l.faults, live: &l.live}
}

// Live returns the bytes that are allocated and not freed.
func (f *Fake) Live() int64 { return f.live.Load() }

// Name is "fake".
func (f *Fake) Name() string { return "fake" }

// Compute multiplies.
func (f *Fake) Compute(in forward.Routed, out []float32, _ *forward.ExpertScratch) error {
	for i, e := range in.Expert {
		if err := f.entry(in, i, forward.ExpertID{Layer: in.Layer, Expert: int(e)}, out); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fake) entry(in forward.Routed, i int, id forward.ExpertID, out []float32) error {
	w := f.Borrow(id)
	if w == nil {
		return fmt.Errorf("%w: %v", forward.ErrNotWarm, id)
	}
	defer f.GiveBack(id)
	d := len(out) / len(in.Expert)
	for j, x := range in.X[int(in.Source[i])*d:][:d] {
		out[i*d+j] = w.factor * in.Weight[i] * x
	}
	if w.freed.Load() {
		return fmt.Errorf("%v was freed while it was computing", id)
	}
	return nil
}

// loader makes weights as the faults say.
type loader struct {
	faults *Faults
	size   func(forward.ExpertID) int64
	live   atomic.Int64
}

func (l *loader) Size(id forward.ExpertID) (int64, error) { return l.size(id), nil }

// Load ends as the faults say, or with weights that multiply rows by the expert's number plus 1.
func (l *loader) Load(ctx context.Context, id forward.ExpertID) (*weights, error) {
	if err := l.faults.Begin(ctx, id); err != nil {
		return nil, err
	}
	w := &weights{factor: float32(id.Expert + 1), bytes: l.size(id)}
	l.live.Add(w.bytes)
	return w, nil
}

// Free marks weights, so that later use of them is seen.
func (l *loader) Free(w *weights) {
	w.freed.Store(true)
	l.live.Add(-w.bytes)
}
