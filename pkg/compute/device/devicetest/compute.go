package devicetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// work returns one row for each of some experts of layer 0.
func work(experts ...uint32) forward.Routed {
	in := forward.Routed{Expert: experts}
	for i := range experts {
		in.Source = append(in.Source, uint32(i))
		in.Weight = append(in.Weight, 0.5+float32(i))
		for j := range Hidden {
			in.X = append(in.X, float32((i+j)%7)-3)
		}
	}
	return in
}

func compute(d device.Device, in forward.Routed) ([]float32, error) {
	out := make([]float32, len(in.Expert)*Hidden)
	return out, d.Compute(in, out, &forward.ExpertScratch{})
}

// Rows have the same bits alone and together; all experts must be warm; and
// computing leaves nothing behind that keeps an expert from being evicted.
func testCompute(t *testing.T, create New) {
	d, _ := create(t, device.Settings{})
	defer d.Close()
	held := warm(t, d, 0, 2, 3)
	in := work(3, 0, 2, 0)
	all, err := compute(d, in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.Expert {
		one, err := compute(d, forward.Routed{
			X: in.X, Source: in.Source[i : i+1], Expert: in.Expert[i : i+1], Weight: in.Weight[i : i+1],
		})
		if err != nil || !slices.Equal(one, all[i*Hidden:(i+1)*Hidden]) || slices.Max(one) == 0 {
			t.Errorf("row %d differs alone, %v", i, err)
		}
	}
	sameSums(t, d)
	for _, experts := range [][]uint32{{1}, {0, 1, 2}, {1 << 31}} {
		if _, err := compute(d, work(experts...)); !errors.Is(err, forward.ErrNotWarm) {
			t.Errorf("computing with experts %v: %v", experts, err)
		}
	}
	if _, err := compute(d, work()); err != nil {
		t.Errorf("computing nothing: %v", err)
	}
	for _, ticket := range held {
		ticket.Release()
		if err := d.Evict(ticket.ID); err != nil {
			t.Error(err)
		}
	}
	wantUsed(t, d, 0)
}

// sameSums wants a device of float32 rows that adds them up itself to give the bits of sums of what it computes.
func sameSums(t *testing.T, d device.Device) {
	t.Helper()
	summer, ok := d.(forward.Summer)
	if !ok {
		return
	}
	in := work(3, 0, 2, 0, 3, 2)
	in.Source, in.X = []uint32{0, 0, 1, 1, 1, 2}, in.X[:3*Hidden]
	got, want := make([]float32, 3*Hidden), make([]float32, 3*Hidden)
	if err := forward.SumSlots(d, in, want, &forward.ExpertScratch{}, "f32", nil); err != nil {
		t.Fatal(err)
	}
	if err := summer.Sums(in, got, &forward.ExpertScratch{}); err != nil || !slices.Equal(got, want) || slices.Max(got) == 0 {
		t.Errorf("sums %v, want %v; %v", got, want, err)
	}
	if err := summer.Sums(forward.Routed{}, nil, &forward.ExpertScratch{}); err != nil {
		t.Errorf("sums of nothing: %v", err)
	}
	in.Expert[5] = 1
	if err := summer.Sums(in, got, &forward.ExpertScratch{}); !errors.Is(err, forward.ErrNotWarm) {
		t.Errorf("sums with a cold expert: %v", err)
	}
}
