package loads

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// StepOf is a microbatch whose rows are on their way to a gate, without experts.
func StepOf(h *pb.Hidden) *pb.StepLoad {
	k := h.GetKey()
	s := &pb.StepLoad{Owner: k.GetOwner(), Epoch: k.GetEpoch(), Step: k.GetStep(), Rows: k.GetRows(), Probe: h.GetProbe()}
	for _, p := range h.GetPhases() {
		if p.Phase == pb.Phase_PHASE_PREFILL {
			s.PrefillRows += p.Rows
		}
	}
	return s
}
