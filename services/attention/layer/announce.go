package layer

import (
	"math"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// pass is what the messages of one step share, whatever their layer.
type pass struct {
	step   uint64
	phases []*pb.PhaseRange // of the step's rows, in their order
	order  *Order           // what gates obey in this step; nil: nothing
	before replays          // what became of its rows before
	end    time.Time        // nobody waits for its rows after that; zero: as long as it takes
	probe  bool             // all its rows are of canaries
}

// remaining is how much time is left, as messages say it.
func (p *pass) remaining(now time.Time) uint32 {
	if p.end.IsZero() {
		return 0
	}
	return uint32(min(max(1, p.end.Sub(now).Milliseconds()), math.MaxUint32))
}

// Step is what a microbatch takes through the layers.
type Step struct {
	Runs  []*pb.Run // its rows, in their order
	Order *Order    // what gates obey in it; nil: nothing
	// Replay is what becomes of rows that are computed again, ascending. Their runs are marked as
	// own, if there is an order.
	Replay []Replay
	End    time.Time // nobody waits for its rows after that; zero: as long as it takes
	Probe  bool      // all its rows are of canaries
}

func countRows(runs []*pb.Run) (n int) {
	for _, r := range runs {
		n += len(r.Tokens)
	}
	return n
}

// phasesOf joins neighbouring runs of one phase, that may or may not be degraded.
func phasesOf(runs []*pb.Run) (phases []*pb.PhaseRange) {
	for _, r := range runs {
		if last := len(phases) - 1; last >= 0 && phases[last].Phase == r.Phase && phases[last].Own == r.Own {
			phases[last].Rows += uint32(len(r.Tokens))
			continue
		}
		phases = append(phases, &pb.PhaseRange{Phase: r.Phase, Rows: uint32(len(r.Tokens)), Own: r.Own})
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
