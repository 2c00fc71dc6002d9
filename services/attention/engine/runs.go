package engine

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// runsOf lists a microbatch's rows in their order. A sequence's prompt tokens
// and generated tokens are runs of their own: each run has one phase.
func runsOf(mb *microbatch) (runs []*pb.Run) {
	for i := range mb.parts {
		p := &mb.parts[i]
		first, end := p.s.done, p.s.done+p.rows
		border := min(max(first, p.s.prompt()), end)
		runs = appendRun(runs, p, first, border, pb.Phase_PHASE_PREFILL)
		runs = appendRun(runs, p, border, end, pb.Phase_PHASE_DECODE)
	}
	return runs
}

func appendRun(runs []*pb.Run, p *part, first, end int, phase pb.Phase) []*pb.Run {
	if first == end {
		return runs
	}
	s := p.s
	return append(runs, &pb.Run{
		Sequence: s.seq.RequestId, FirstPosition: uint32(first), Tokens: s.ids[first:end], Phase: phase, Tenant: s.flow.Tenant, Own: p.own,
	})
}
