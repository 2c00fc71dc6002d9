package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// journal writes the records of sequences to their logs.
type journal struct {
	now      func() time.Time
	log      *slog.Logger
	stats    *stats
	progress *forward.Progress // counts records
	// made are records that no log has yet. The engine gives workers their next microbatches first, and then writes the
	// records. failed are the sequences of which one could not be written.
	made   []made
	failed []*Sequence
	// closing are logs whose terminal record may not be stored yet.
	closing []logWriter
}

// made is a record of a sequence.
type made struct {
	of     *Sequence
	record *pb.Record
}

// write queues the records that were made. Behind one that could not be written the sequence's others would leave a gap.
func (j *journal) write() {
	for _, m := range j.made {
		if m.of.ended || slices.Contains(j.failed, m.of) {
			continue
		}
		if !j.append(m.of, m.record) && m.of.end != nil {
			j.failed = append(j.failed, m.of)
		}
	}
	clear(j.made)
	j.made = j.made[:0]
}

// put queues a record behind those that were made, and reports whether it could.
func (j *journal) put(s *Sequence, r *pb.Record) bool {
	j.write()
	return j.append(s, r)
}

// append queues a record, and reports whether it could. One that cannot be written ends its sequence.
func (j *journal) append(s *Sequence, r *pb.Record) bool {
	j.progress.Tick()
	err := s.writer.Append(r)
	var large *bus.TooLargeError
	switch {
	case err == nil:
		return true
	case errors.Is(err, tokenlog.ErrStale), errors.Is(err, tokenlog.ErrFinished):
		// Another owner makes this record, or nobody needs it; drop follows.
		j.log.Info("log is not ours any more", "request", s.seq.RequestId, "error", err)
	case errors.As(err, &large):
		s.end = ErrorEnd("payload_too_large", err.Error())
	default:
		j.log.Error("a record cannot be written", "request", s.seq.RequestId, "error", err)
		s.end = ErrorEnd(internal, edge.Fault)
	}
	return false
}

// advance takes in what a step made of a sequence; write writes it to its log.
func (j *journal) advance(p *part) {
	s := p.s
	s.fates.add(&s.content, p.lasting(), p.fates, p.threshold)
	s.cost.Add(p.cost)
	s.done += p.lasting()
	s.doubtful = s.doubtful && len(p.scores)+len(p.choices) == 0
	for i := 0; i < len(p.scores) && s.end == nil; i++ {
		s.scored++
		j.made = append(j.made, made{s, &pb.Record{Kind: &pb.Record_Score{Score: p.scores[i]}}})
	}
	for i := 0; i < len(p.choices) && s.end == nil; i++ {
		if s.generated() == 0 {
			s.first = j.now()
			if !s.flow.IsCanary() {
				j.stats.presence.Add(members.FirstTokens, 1)
				j.stats.presence.Add(members.FirstTokenSeconds, s.first.Sub(s.accepted).Seconds())
			}
		}
		first := s.logged()
		token := s.take(p.choices[i])
		token.Fates, token.Cost = s.fates.give(&s.degraded), s.cost.Record()
		token.Degraded = s.degraded.Record()
		s.past.take(first, token.Fates)
		j.made = append(j.made, made{s, &pb.Record{Kind: &pb.Record_Token{Token: token}}})
	}
	s.end = cmp.Or(s.end, p.end)
	if s.end == nil && s.pending() == 0 {
		s.end = &pb.Terminal{FinishReason: "length"} // nothing but scores was asked for
	}
}

// finish queues the terminal record of a sequence that has an end. The work is acknowledged
// when the record is in the log (see ender.go).
func (j *journal) finish(s *Sequence) {
	j.write() // which may end it otherwise
	s.fates.give(&s.degraded)
	j.account(s)
	if !j.append(s, &pb.Record{Kind: &pb.Record_Terminal{Terminal: s.end}}) {
		j.account(s) // the end may be another one now
	}
	j.close(s)
}

// account has a sequence's end tell what the sequence took.
func (j *journal) account(s *Sequence) {
	s.end.Timings, s.end.Cost, s.end.Degraded = s.timings(j.now()), s.cost.Record(), s.degraded.Record()
}

// close notes that a sequence's terminal record is queued.
func (j *journal) close(s *Sequence) {
	s.ended = true
	j.closing = append(j.closing, s.writer)
	j.stats.finished(s)
}

func isClosed(w logWriter) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// internal is an error of ours, as producers see it.
const internal = string(edge.Internal)

// ErrorEnd ends a log by an error.
func ErrorEnd(code, message string) *pb.Terminal {
	return &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: code, Message: message}}
}

// roomPause is how long a producer should wait whose request found the log full.
const roomPause = 2 * time.Second

// noRoom is the end of a sequence whose log is full.
func noRoom(why error) *pb.Terminal {
	end := ErrorEnd("overloaded", fmt.Sprintf("the rest of the answer could not be written: %v", why))
	end.Error.RetryAfter = roomPause.Seconds()
	return end
}

// ender ends the deliveries of sequences whose logs have ended.
type ender struct {
	log   *slog.Logger
	tasks *sync.WaitGroup
}

// finished settles a sequence whose terminal record is in the log.
func (t *ender) finished(s *Sequence) {
	if s.fault != nil {
		t.tasks.Go(func() { t.giveUp(s) })
		return
	}
	if err := s.delivery.Ack(); err != nil {
		t.log.Debug("acknowledging a sequence", "request", s.seq.RequestId, "error", err)
		return
	}
	t.log.Debug("a sequence has ended", "request", s.seq.RequestId, "tokens", s.generated())
}

// giveUp leaves a sequence to the dead letters whose steps panic.
func (t *ender) giveUp(s *Sequence) {
	if err := s.delivery.End(bus.GiveUp(bus.Panicked, s.fault)); err != nil {
		t.log.Debug("giving up a sequence", "request", s.seq.RequestId, "error", err)
	}
}

// lost settles a sequence whose log is not ours to write any more. Another
// owner has the work, or its end is stored.
func (t *ender) lost(s *Sequence, err error) {
	if errors.Is(err, tokenlog.ErrFinished) {
		t.finished(s)
		return
	}
	s.delivery.Drop()
}

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

// try reports whether the trial's sequence may step now; it is all that is ready then. While
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
	d.chooser.items, d.chooser.ready = append(d.chooser.items[:0], s.item()), append(d.chooser.ready[:0], s)
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
