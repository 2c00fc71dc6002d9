package expert

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testloads"
	"github.com/switchyard/switchyard/pkg/control/loads"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The sink gets functions and the host's memory, which the copy on NATS has not;
// what was told is not told again.
func TestSinkSamples(t *testing.T) {
	h, got := startHost(t, 0), &testloads.Sink{}
	h.d.Loads = got
	next := h.listen()
	spec := h.d.Model.Spec
	limits := loads.Limits{Model: h.d.Identity.Model, Layers: spec.Layers, Experts: spec.Experts, TopK: spec.TopK, MoE: h.d.Shape.MoE}
	h.sendSamples(t.Context(), time.Second)
	if all := got.Take(); len(all) != 1 || limits.Check(all[0]) != nil || all[0].Memory == nil || len(all[0].Functions) > 0 {
		t.Errorf("without functions: %v", all)
	}
	h.plan([]uint32{2, 0})
	h.awaitWarm(0, 2)
	h.compute(0, 2)
	h.sendSamples(t.Context(), 1500*time.Millisecond)
	if s := next(); len(s.Functions) > 0 || s.Memory != nil || s.Number != 0 {
		t.Errorf("on NATS: %v", s)
	}
	of := func(all []*pb.LoadSample) *pb.FunctionLoad {
		t.Helper()
		for _, s := range all {
			if err := limits.Check(s); err != nil || s.SpanMs != 1500 || s.Memory.GetUsedBytes() == 0 || s.Memory.Warm == 0 || !(s.Use.GetKeptGbS() > 0) || s.Memory.Use.GetLoads() == 0 {
				t.Errorf("%v: %v", err, s)
			}
			if s.Layer == 0 && len(s.Functions) == 1 {
				return s.Functions[0]
			}
		}
		t.Fatalf("no function of layer 0 among %v", all)
		return nil
	}
	f := of(got.Take())
	if !slices.Equal(f.Expert, []uint32{0, 2}) || f.Messages != 1 || f.Rows != 2 || f.ComputeNs == 0 || f.StallNs != 0 {
		t.Errorf("got %v", f)
	}
	h.sendSamples(t.Context(), 1500*time.Millisecond)
	if f = of(got.Take()); f.Messages != 0 || f.Rows != 0 || f.ComputeNs != 0 {
		t.Errorf("told again: %v", f)
	}
}
