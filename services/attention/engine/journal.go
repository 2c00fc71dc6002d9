package engine

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
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

// put queues a record behind those that were made, and says whether it could.
func (j *journal) put(s *Sequence, r *pb.Record) bool {
	j.write()
	return j.append(s, r)
}

// append queues a record, and says whether it could. One that cannot be written ends its sequence.
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
		s.end = ErrorEnd(internal, err.Error())
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
			j.stats.answers(s)
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
	s.end.Timings, s.end.Cost, s.end.Degraded = s.timings(j.now()), s.cost.Record(), s.degraded.Record()
	j.append(s, &pb.Record{Kind: &pb.Record_Terminal{Terminal: s.end}})
	j.close(s)
}

// close notes that a sequence's terminal record is queued.
func (j *journal) close(s *Sequence) {
	s.ended = true
	j.closing = append(j.closing, s.writer)
	j.stats.finished(s)
}

// tidy forgets logs whose terminal record is stored.
func (j *journal) tidy() { j.closing = slices.DeleteFunc(j.closing, isClosed) }

func isClosed(w logWriter) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}
