package top

import (
	"math"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Replicas are counted by expert, also those of functions that have left the plan.
func TestReplicas(t *testing.T) {
	const warm, cold, warming = pb.FunctionPhase_FUNCTION_PHASE_WARM, pb.FunctionPhase_FUNCTION_PHASE_COLD, pb.FunctionPhase_FUNCTION_PHASE_WARMING
	says := func(phase pb.FunctionPhase, joined bool, experts ...uint32) *pb.FunctionState {
		return &pb.FunctionState{Id: plan.FunctionID(2, experts, plan.Routed), Phase: phase, Joined: joined}
	}
	l := &pb.LayerPlan{Layer: 2, Functions: []*pb.Function{plan.Function(2, []uint32{0, 1}), plan.Function(2, []uint32{2, 3, 4})}}
	states := []*pb.FunctionState{
		says(warm, true, 0, 1), says(warm, true, 0, 1), says(warm, true, 0), says(warm, false, 2), says(cold, true, 3), says(warming, true, 3),
		says(warm, true, 9), says(pb.FunctionPhase_FUNCTION_PHASE_REFUSED, true, 4),
	}
	for range 11 {
		states = append(states, says(warm, false, 3))
	}
	r := count(l, states)
	if got := r.glyphs(); got != "32kk·" || r.Cold[3] != 2 || r.Kept[3] != 11 {
		t.Errorf("%s, %+v", got, r)
	}
	text := (&Snapshot{Replicas: []Replicas{r}, Members: []Member{{Stats: map[string]float64{statColdStarts: 7}}}}).View(nil)
	if !strings.Contains(text, "cold starts: 7") || !strings.Contains(text, "32kk·") {
		t.Errorf("%s", text)
	}
	for range 9 {
		states = append(states, says(warm, true, 0))
	}
	if r = count(l, states); !strings.HasPrefix(r.glyphs(), "+2") {
		t.Errorf("%s", r.glyphs())
	}
	huge := &pb.LayerPlan{Functions: []*pb.Function{{Experts: []uint32{math.MaxUint32}}}}
	if n := len(count(huge, nil).Warm); n > maxExperts {
		t.Errorf("%d experts", n)
	}
}
