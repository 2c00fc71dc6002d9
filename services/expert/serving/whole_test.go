package serving

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// A host answers for a group of which it has everything, and sends a partial of any other.
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0)
	steps := uint64(0)
	for name, tc := range map[string]struct {
		change  func(*pb.Dispatch)
		answers bool
	}{
		"all of the group":                {func(*pb.Dispatch) {}, true},
		"all that it awaits":              {func(d *pb.Dispatch) { cutLast(d); d.Awaits = []byte{0b0111} }, true},
		"the rest is elsewhere":           {cutLast, false},
		"other rows are elsewhere":        {func(d *pb.Dispatch) { d.Key.Rows = 3 }, false},
		"a row that awaits nothing":       {func(d *pb.Dispatch) { d.Key.Rows, d.Awaits = 3, []byte{0b001111} }, false},
		"an aggregator that takes no sum": {func(d *pb.Dispatch) { d.Key.RowSums = false }, false},
	} {
		steps++
		d := rig.Dispatch(tensor.BF16, h.d.Model.Spec.Hidden, 0, 1, 1, 0)
		d.Key.Model, d.Key.Step, d.Key.RowSums, d.Function = h.d.Identity.Model, steps, true, h.f.ID()
		d.Gate = &pb.GateTime{ComputeNs: 5}
		tc.change(d)
		blocks, partials := len(h.blocks.All()), len(h.partials.All())
		if err := h.takes(d); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !tc.answers {
			if p := h.partials.Take(t, partials+1)[partials]; p.Key.Step != steps {
				t.Errorf("%s: %v", name, p)
			}
			continue
		}
		b := h.blocks.Take(t, blocks+1)[blocks]
		if b.Error != nil || b.Key.Step != steps || b.Tensor.GetRows() != d.Key.Rows || b.Gate.GetComputeNs() != 5 || len(b.Functions) != 1 || b.Functions[0].Rows != uint32(len(d.Place)) {
			t.Errorf("%s: %v", name, b)
		}
	}
	if p := h.partials.All(); slices.ContainsFunc(p, func(p *pb.Partial) bool { return p.Key.Owner == "" }) {
		t.Errorf("%v", p)
	}
}

// A function that is rented for batches sends what it has to the aggregator, in its platform's time, as it is
// billed for.
func TestRentedForBatches(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0)
	h.Invoked = compute.NewRentedHost(&scatter.System{
		Model: scatter.Model{Layers: 1, Experts: 1, TopK: 1, Expert: 1, In: 1, Out: 1},
		Functions: cost.Platform{
			Sizes: []float64{1 << 20}, PerCPU: 1 << 20, CPU: cost.Roofline{Bandwidth: 1e12, Rate: 1e12, ElementBytes: 4}, Parameters: cost.Link{Bandwidth: 1e12}, Direct: 1e12, Replicas: 1,
		},
	}, 1)
	t.Cleanup(h.Invoked.Close)
	h.Invoked.Rent(0, h.f.ID(), 1<<20)
	d := rig.Dispatch(tensor.BF16, h.d.Model.Spec.Hidden, 0, 1, 1, 0)
	d.Key.Model, d.Key.RowSums, d.Function = h.d.Identity.Model, true, h.f.ID()
	if err := h.takes(d); err != nil {
		t.Fatal(err)
	}
	if p := h.partials.Take(t, 1)[0]; p.Key.Owner == "" || p.Tensor.GetRows() != d.Key.Rows {
		t.Errorf("%v", p)
	}
	if b := h.blocks.All(); len(b) > 0 {
		t.Errorf("a block went past the platform: %v", b)
	}
}

// cutLast takes the last slot out of a dispatch.
func cutLast(d *pb.Dispatch) {
	n := len(d.Place) - 1
	d.Place, d.Expert, d.Weight = d.Place[:n], d.Expert[:n], d.Weight[:n]
}
