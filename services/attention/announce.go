package attention

import (
	"context"
	"math"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// pass is what the messages of one step share, whatever their layer.
type pass struct {
	step   uint64
	phases []*pb.PhaseRange // of the step's rows, in their order
	stamp  *pb.Stamp        // what gates obey in this step; nil: nothing
	end    time.Time        // nobody waits for its rows after that; zero: as long as it takes
}

// remaining is how much time is left, as messages say it.
func (p *pass) remaining(now time.Time) uint32 {
	if p.end.IsZero() {
		return 0
	}
	return uint32(min(max(1, p.end.Sub(now).Milliseconds()), math.MaxUint32))
}

// begin gives the rows of a microbatch a step, and announces it. That is one
// publish on the connection that the rows take next and waits for no answer;
// when it fails the step goes on.
func (r *remote) begin(ctx context.Context, runs []*pb.Run, stamp *pb.Stamp, end time.Time) {
	next := pass{step: r.next.Add(1), phases: phasesOf(runs), stamp: stamp, end: end}
	r.mu.Lock() // a late block may ask which step it is
	r.pass = next
	r.fates.begin(countRows(runs))
	r.costs.begin(countRows(runs))
	r.mu.Unlock()
	err := r.announce(ctx, &pb.Step{
		Version: schemas.Version, Model: r.identity.Model, Owner: r.owner, Epoch: r.epoch,
		Step: r.step, Microbatch: r.microbatch, Runs: runs,
	})
	if err != nil {
		r.stats.unannounced()
	}
}

// runsOf lists a microbatch's rows in their order. A sequence's prompt tokens
// and generated tokens are runs of their own: each run has one phase.
func runsOf(mb *microbatch) (runs []*pb.Run) {
	for i := range mb.parts {
		p := &mb.parts[i]
		first, end := p.s.done, p.s.done+p.rows
		border := min(max(first, p.s.prompt()), end)
		runs = appendRun(runs, p.s, first, border, pb.Phase_PHASE_PREFILL)
		runs = appendRun(runs, p.s, border, end, pb.Phase_PHASE_DECODE)
	}
	return runs
}

func appendRun(runs []*pb.Run, s *sequence, first, end int, phase pb.Phase) []*pb.Run {
	if first == end {
		return runs
	}
	return append(runs, &pb.Run{
		Sequence: s.seq.RequestId, FirstPosition: uint32(first), Tokens: s.ids[first:end], Phase: phase, Tenant: s.flow.Tenant,
	})
}

// phasesOf joins neighbouring runs of one phase.
func phasesOf(runs []*pb.Run) (phases []*pb.PhaseRange) {
	for _, r := range runs {
		if last := len(phases) - 1; last >= 0 && phases[last].Phase == r.Phase {
			phases[last].Rows += uint32(len(r.Tokens))
			continue
		}
		phases = append(phases, &pb.PhaseRange{Phase: r.Phase, Rows: uint32(len(r.Tokens))})
	}
	return phases
}

// cutPhases is the phases of so many rows from the first on.
func cutPhases(phases []*pb.PhaseRange, first, rows int) (cut []*pb.PhaseRange) {
	at, end := 0, first+rows
	for _, p := range phases {
		from, to := max(at, first), min(at+int(p.Rows), end)
		switch {
		case from == at && to == at+int(p.Rows):
			cut = append(cut, p)
		case from < to:
			cut = append(cut, &pb.PhaseRange{Phase: p.Phase, Rows: uint32(to - from), Own: p.Own})
		}
		at += int(p.Rows)
	}
	return cut
}
