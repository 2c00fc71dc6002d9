package engine

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A sequence of which owner after owner made nothing may be what took them down. It steps
// in trials: in its turn, when nothing else is in flight, and when its log says so. An
// owner that goes away then leaves a record that blames this sequence, and no other
// (tokenlog.Chain). Others step between the pieces of a long prompt.
//
//	its turn ─▶ nothing else is in flight ─▶ recorded ─▶ stored ─▶ in flight ─▶ over, or a token

// trial is the one that has its turn.
type trial struct {
	of       *Sequence // nil: none
	recorded bool      // its beginning is in the log, or on its way
}

// try says whether the trial's sequence may step now; it is all that is ready then. While
// its log cannot be written, nothing steps: soon nothing else could be written either.
func (d *scheduler) try() bool {
	s := d.trial.of
	if len(d.crew.busy) > 0 {
		return false
	}
	if !d.trial.recorded {
		d.trial.recorded = d.record(s, &pb.Trial{})
	}
	if !d.trial.recorded || !s.mayStep() { // another owner has it; or it is not stored yet
		return false
	}
	d.chooser.only(s)
	return true
}

// endTrial lets others have their turn, if a sequence's trial goes on.
func (d *scheduler) endTrial(s *Sequence) {
	if d.trial.of != s {
		return
	}
	recorded := d.trial.recorded
	d.trial = trial{}
	if recorded && s.doubtful && !s.ended {
		d.record(s, &pb.Trial{Over: true})
	}
}

// record writes to a log how far its trial is.
func (d *scheduler) record(s *Sequence, t *pb.Trial) bool {
	written := d.journal.put(s, &pb.Record{Kind: &pb.Record_Trial{Trial: t}})
	if s.end != nil {
		d.finish(s)
	}
	return written
}
