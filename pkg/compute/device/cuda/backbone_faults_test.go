package cuda

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// What goes wrong in a step is the device's fault, not its rows', and reports whether
// another step can be computed here: docs/cuda.md has the table.
func TestBackboneFaults(t *testing.T) {
	const kernel = "kv_store_p2"
	for _, tt := range []struct {
		name  string
		fault func(*fake.Faults) (end func())
		want  outcome
	}{
		{"launch refused", now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeLaunchOutOfMemory, 1) }), outcome{call: cuda.ErrLaunch, next: true}},
		{"head's launch refused", now(func(f *fake.Faults) { f.Refuse("rms_norm", cuda.CodeInvalidValue, 1) }), outcome{call: cuda.ErrLaunch, next: true}},
		{"kernel fails", now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeIllegalAddress) }), outcome{call: cuda.ErrLost}},
		{"device lost before", now(func(f *fake.Faults) { f.Lose(cuda.CodeDeviceUnavailable) }), outcome{call: cuda.ErrLost}},
		{"kernel hangs", func(f *fake.Faults) func() { return f.HoldKernel(kernel) }, outcome{call: cuda.ErrLost}},
		{"copy hangs", (*fake.Faults).HoldCopies, outcome{call: cuda.ErrLost}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu, s := newAttentionGPU(t), backboneSettings(2)
			s.NoGraphs = true // TestGraphFaults
			y := spineOn(t, modeltest.Golden(t, "mixtral"), gpu, s)
			table, err := y.kv.Reserve(8)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Release()
			rows := rowsOf(table, idsFor(y.m, 5), 0)
			want, err := logits(t.Context(), y.step, rows)
			if err != nil {
				t.Fatal(err)
			}
			if errors.Is(tt.want.call, cuda.ErrLost) {
				y.on.health.patience = 20 * time.Millisecond
			}
			if end := tt.fault(gpu.Faults); end != nil {
				defer end()
			}
			_, err = logits(t.Context(), y.step, rows)
			var device *forward.DeviceError
			if !errors.Is(err, tt.want.call) || !errors.As(err, &device) || device.Lost == tt.want.next {
				t.Fatalf("the step: %v, want %v", err, tt.want.call)
			}
			switch got, err := logits(t.Context(), y.step, rows); {
			case (err == nil) != tt.want.next:
				t.Errorf("the next step: %v", err)
			case err == nil && !slices.Equal(got, want):
				t.Error("the next step gives other logits")
			}
		})
	}
}

// Nothing is allocated on the GPU once pages are cut, and what is open is given back.
func TestStepsAllocateNothing(t *testing.T) {
	gpu := newAttentionGPU(t)
	y := spineOn(t, modeltest.Golden(t, "mixtral-window"), gpu, backboneSettings(1))
	before, pinned, _ := gpu.Left()
	gpu.Faults.NoAlloc()
	y.prefill(t, idsFor(y.m, 70), 60, 1, 9)
	if after, now, _ := gpu.Left(); after != before || now != pinned {
		t.Errorf("%d bytes and %d pinned ones, %d and %d when it opened", after, now, before, pinned)
	}
	y.on.Close()
	if bytes, pinned, streams := gpu.Left(); bytes+pinned != 0 || streams != 0 {
		t.Errorf("%d bytes, %d pinned ones and %d streams are left", bytes, pinned, streams)
	}
}

// Pages are what --gpu-memory leaves: more than that are refused with both numbers, and a
// sequence that finds them taken waits, as on the CPU.
func TestPagesWithinMemory(t *testing.T) {
	m, s := modeltest.Golden(t, "mixtral"), backboneSettings(2)
	y := spineOn(t, m, newAttentionGPU(t), s)
	table, err := y.kv.Reserve(y.kv.Capacity() * kvcache.PagePositions)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.kv.Reserve(1); !errors.Is(err, kvcache.ErrFull) {
		t.Errorf("a page more: %v", err)
	}
	table.Release()
	if y.kv.Used() != 0 {
		t.Errorf("%d pages are taken", y.kv.Used())
	}
	var room *cuda.RoomError
	for y.on.arena.Rest() > cuda.Align {
		if _, err := y.on.arena.Take(y.on.arena.Rest()-cuda.Align, "others"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := y.backbone.NewPool(1, 0); !errors.As(err, &room) || room.Need <= room.Rest {
		t.Errorf("without room for a page: %v", err)
	}
}
