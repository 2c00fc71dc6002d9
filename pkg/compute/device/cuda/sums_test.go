package cuda

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// summed are rows with one to several experts each.
func summed(m *model.Model, n int) forward.Routed {
	in := rowsFor(m, n)
	slices.Sort(in.Source)
	return in
}

// sumsAgree wants sums on a GPU to have the bits of sums of what comes back from it.
func sumsAgree(t *testing.T, m *model.Model, d *Device) {
	t.Helper()
	for _, n := range []int{9, 40} { // one entry a row, and more
		in := summed(m, n)
		got, want := make([]float32, len(in.X)), make([]float32, len(in.X))
		if err := forward.SumSlots(d, in, want, &forward.ExpertScratch{}, wireOf(d), nil); err != nil {
			t.Fatal(err)
		}
		if err := d.Sums(in, got, &forward.ExpertScratch{}); err != nil {
			t.Fatal(err)
		}
		if slices.Max(got) == 0 {
			t.Error("all sums are 0")
		}
		sameBits(t, m, got, want)
	}
}

// Sums are made on the GPU also in pieces, of one row at least.
func TestSums(t *testing.T) {
	m := modeltest.Golden(t, "mixtral")
	for parts := 1; parts <= 2; parts++ {
		for _, rows := range []int{64, 40, 39, 7, 5} {
			t.Run(fmt.Sprintf("p%d, %d at a time", parts, rows), func(t *testing.T) {
				d, err := open(m, newGPU(t), images, Settings{Memory: small, Parts: parts}, tuning{rows: rows})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(d.Close)
				warmed(t, d, rowsFor(m, 0).Layer, m.Spec.Experts)
				sumsAgree(t, m, d)
			})
		}
	}
}

// wireOf is what rows between services are for which a device was made.
func wireOf(d *Device) tensor.Wire { return []tensor.Wire{tensor.BF16, tensor.F32}[d.shape.parts-1] }

// A call of as many rows, each of an expert of its own, as a lane has room for. The lane gives the
// same before it has made sums, and after.
func TestSumsFillLane(t *testing.T) {
	const rows = 4
	m := modeltest.Golden(t, "mixtral")
	d, in := openOn(t, newGPU(t), m, rows), rowsFor(m, rows)
	in.X = in.X[:rows*m.Spec.Hidden]
	for i := range in.Expert {
		in.Source[i], in.Expert[i] = uint32(i), uint32(m.Spec.Experts-1-i)
	}
	warmed(t, d, in.Layer, m.Spec.Experts)
	want := computed(t, d, in, m)
	wireOf(d).Round(want)
	for round := range 4 * lanesAtOnce { // calls take lanes in turn
		got, s := make([]float32, len(in.X)), &forward.ExpertScratch{}
		sums := func() error { return d.Sums(in, got, s) }
		if round/lanesAtOnce%2 == 0 {
			sums = func() error { return forward.SumSlots(d, in, got, s, wireOf(d), nil) }
		}
		if err := sums(); err != nil {
			t.Fatal(err)
		}
		sameBits(t, m, got, want)
	}
}

// What goes wrong with sums is as with other kernels.
func TestSumFaults(t *testing.T) {
	m := modeltest.Golden(t, "mixtral")
	for _, tt := range []struct {
		name        string
		entries     int
		fault       func(*fake.Faults)
		first, next error
	}{
		{"refused", 40, func(f *fake.Faults) { f.Refuse("sum_slots", cuda.CodeInvalidValue, 1) }, cuda.ErrLaunch, nil},
		{"broken", 40, func(f *fake.Faults) { f.Break("sum_slots", cuda.CodeIllegalAddress) }, cuda.ErrLost, cuda.ErrLost},
		{"a piece refused", 65, func(f *fake.Faults) { f.Refuse("sum_slots", cuda.CodeInvalidValue, 1) }, cuda.ErrLaunch, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu := newGPU(t)
			d, in := openOn(t, gpu, m, 64), summed(m, tt.entries)
			warmed(t, d, in.Layer, m.Spec.Experts)
			tt.fault(gpu.Faults)
			for i, want := range []error{tt.first, tt.next} {
				if err := d.Sums(in, make([]float32, len(in.X)), &forward.ExpertScratch{}); !errors.Is(err, want) {
					t.Errorf("call %d: %v, want %v", i, err, want)
				}
			}
		})
	}
}

// warmed loads all experts of a layer.
func warmed(t testing.TB, d device.Device, layer, experts int) {
	t.Helper()
	for e := range experts {
		if err := d.Load(t.Context(), forward.ExpertID{Layer: layer, Expert: e}, 0).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
