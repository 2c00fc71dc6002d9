package engine

import (
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// runsOf lists a microbatch's rows in their order. A sequence's prompt tokens
// and generated tokens are runs of their own: each run has one phase.
func runsOf(mb *microbatch) (runs []*pb.Run) {
	for i := range mb.parts {
		p := &mb.parts[i]
		first, end := p.s.done, p.s.done+p.rows
		border := min(max(first, p.s.prompt()), end)
		runs = appendRuns(runs, mb, p, first, border, pb.Phase_PHASE_PREFILL)
		runs = appendRuns(runs, mb, p, border, end, pb.Phase_PHASE_DECODE)
	}
	return runs
}

// appendRuns makes rows of one phase runs. Where gates obey a stamp, those that are computed again
// are one of their own: what became of them stays.
func appendRuns(runs []*pb.Run, mb *microbatch, p *part, first, end int, phase pb.Phase) []*pb.Run {
	if mb.order == nil {
		return appendRun(runs, p, first, end, phase, false)
	}
	again := min(max(first, p.s.logged()), end)
	runs = appendRun(runs, p, first, again, phase, true)
	return appendRun(runs, p, again, end, phase, p.own || p.s.spared(p.rows))
}

func appendRun(runs []*pb.Run, p *part, first, end int, phase pb.Phase, own bool) []*pb.Run {
	if first == end {
		return runs
	}
	s, tokens := p.s, p.tokens[first:end]
	if p.drafted > 0 {
		tokens = slices.Clone(tokens) // other tokens will be where these are
	}
	return append(runs, &pb.Run{
		Sequence: s.seq.RequestId, FirstPosition: uint32(first), Tokens: tokens, Phase: phase, Tenant: s.flow.Tenant, Own: own,
	})
}
