package serving

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
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

// cutLast takes the last slot out of a dispatch.
func cutLast(d *pb.Dispatch) {
	n := len(d.Place) - 1
	d.Place, d.Expert, d.Weight = d.Place[:n], d.Expert[:n], d.Weight[:n]
}
