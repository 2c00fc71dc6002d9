package cuda

import (
	"errors"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// What the GPU itself says of its end ends calls and loads that hang, without waiting
// for the driver to say so, or for the device's patience.
func TestLose(t *testing.T) {
	m, gpu := modeltest.Golden(t, "mixtral"), newGPU(t)
	d := openOn(t, gpu, m, 64)
	in := rowsFor(m, 6)
	for e := range m.Spec.Experts {
		if err := d.Load(t.Context(), forward.ExpertID{Layer: in.Layer, Expert: e}, 0).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.health.patience = time.Hour
	defer gpu.Faults.HoldCopies()()
	computed := make(chan error)
	go func() {
		computed <- d.Compute(in, make([]float32, len(in.Expert)*m.Spec.Hidden), &forward.ExpertScratch{})
	}()
	load := d.Load(t.Context(), forward.ExpertID{Layer: 0, Expert: 0}, 0)
	why := &cuda.LostError{Why: "Xid 79"}
	d.Lose(why)
	d.Lose(&cuda.Error{Call: "cuEventSynchronize", Code: cuda.CodeUnknown}) // as the driver says in the end
	if err := <-computed; !errors.Is(err, cuda.ErrLost) {
		t.Errorf("the call: %v", err)
	}
	var failed *device.FailedError
	if err := load.Wait(t.Context()); !errors.As(err, &failed) || !errors.Is(err, cuda.ErrLost) {
		t.Errorf("the load: %v", err)
	}
	<-d.Failed()
	if !errors.Is(d.Err(), error(why)) {
		t.Errorf("the host is told %v", d.Err())
	}
}

// The same ends a step of attention that hangs: its rows are to be computed elsewhere.
func TestLoseBackbone(t *testing.T) {
	gpu := newAttentionGPU(t)
	y := spineOn(t, modeltest.Golden(t, "mixtral"), gpu, backboneSettings(2))
	table, err := y.kv.Reserve(8)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	y.on.health.patience = time.Hour
	defer gpu.Faults.HoldCopies()()
	stepped := make(chan error)
	go func() {
		_, err := logits(t.Context(), y.step, rowsOf(table, idsFor(y.m, 5), 0))
		stepped <- err
	}()
	why := &cuda.LostError{Why: "Xid 79"}
	y.on.Lose(why)
	var of *forward.DeviceError
	if err := <-stepped; !errors.As(err, &of) || !of.Lost || !errors.Is(err, error(why)) {
		t.Errorf("the step: %v", err)
	}
	<-y.on.Failed()
	if !errors.Is(y.on.Err(), error(why)) {
		t.Errorf("the replica is told %v", y.on.Err())
	}
}
