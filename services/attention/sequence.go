package attention

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/sampling"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sequence is a request that this replica owns. The engine's goroutine changes
// it, but for ids, done and table while a worker has it (flight).
type sequence struct {
	seq   *pb.Sequence
	ids   []uint32       // prompt and generated tokens
	done  int            // of ids: those that went through the layers
	long  bool           // those were computed for a long sequence
	table *kvcache.Table // nil while it waits for pages

	admission uint64 // 1, 2, … as sequences got their first pages; 0: it never had any
	asides    int    // how often it gave them back

	params   sampling.Params
	flow     schemas.Flow
	writer   logWriter
	epoch    uint64 // of the claim on the log
	delivery *hold
	release  func() // gives the admission slot back

	// isLong says whether a sequence of so many tokens is a long one; nil: none is.
	isLong func(length int) bool

	scored int         // prompt positions whose scores are in the log
	flight *microbatch // that it travels in; nil: none
	// suspect was in a microbatch that panicked.
	suspect bool
	// doubtful is one of which owner after owner made nothing: it steps in trials.
	doubtful bool
	// fault is the panic that ended it.
	fault error
	// ended is set once a terminal record is queued; why is it for an early end.
	ended bool
	end   *pb.Terminal

	fates logFates // of rows since the newest token
	cost  cost     // of all its rows, those of owners before included

	traceparent string    // empty: not sampled
	accepted    time.Time // this host's clock, corrected by the log's timestamps
	queued      time.Duration
	first       time.Time
	deadline    time.Time // zero: none
	limited     bool      // the deadline is the log's age
}

// logWriter is tokenlog.Writer's part that a sequence needs.
type logWriter interface {
	Append(*pb.Record) error
	Full() bool
	Flush(ctx context.Context) error
	Done() <-chan struct{}
}

// delivery is bus.Delivery's part that a sequence needs.
type delivery interface {
	Ack() error
	Nak(delay time.Duration) error
	End(err error) error
	InProgress() error
	AckSubject() string
}

func newSequence(seq *pb.Sequence) *sequence {
	s := seq.Sampling
	return &sequence{
		seq: seq, ids: append([]uint32(nil), seq.PromptIds...), flow: schemas.FlowOf(seq.Accept),
		params: sampling.Params{
			Temperature: s.GetTemperature(), TopP: s.GetTopP(), TopK: int(s.GetTopK()),
			RepetitionPenalty: s.GetRepetitionPenalty(), Seed: s.GetSeed(), Logprobs: int(s.GetLogprobs()),
		},
	}
}

// measure begins anew once the sequence is long: all of its positions are then
// computed in another way, and what the cache holds is of no use.
func (s *sequence) measure() {
	if s.isLong == nil {
		return
	}
	if long := s.isLong(len(s.ids)); long != s.long {
		s.long, s.done = long, 0
	}
}

// restore takes in what the log already has, so that the sequence goes on
// where its last owner stopped. now is this host's time of the newest entry.
func (s *sequence) restore(history []tokenlog.Entry, now time.Time) {
	newest := history[len(history)-1].Time
	local := func(t time.Time) time.Time { return now.Add(t.Sub(newest)) }
	claimed := false
	for _, e := range history {
		switch k := e.Record.Kind.(type) {
		case *pb.Record_Accept:
			s.accepted, s.traceparent = local(e.Time), k.Accept.Traceparent
			if ms := k.Accept.DeadlineMs; ms > 0 {
				s.deadline = s.accepted.Add(time.Duration(ms) * time.Millisecond)
			}
		case *pb.Record_Claim:
			if !claimed {
				s.queued, claimed = e.Time.Sub(history[0].Time), true
			}
		case *pb.Record_Score:
			s.scored++
		case *pb.Record_Token:
			if s.generated() == 0 {
				s.first = local(e.Time)
			}
			s.ids = append(s.ids, k.Token.Id)
			s.cost = costOf(k.Token.Cost)
			s.finishIfLast(k.Token)
		}
	}
	s.measure()
}

// endBefore gives a sequence a deadline of its own where its producer set none,
// or a later one.
func (s *sequence) endBefore(longest time.Duration) {
	if latest := s.accepted.Add(longest); s.deadline.IsZero() || latest.Before(s.deadline) {
		s.deadline, s.limited = latest, true
	}
}

// late is the end of a sequence whose deadline has passed.
func (s *sequence) late() *pb.Terminal {
	if s.limited {
		return errorEnd("deadline_exceeded", fmt.Sprintf("the request took longer than its log is sure to last; it ended after %d tokens (raise --log-age)", s.generated()))
	}
	return errorEnd("deadline_exceeded", fmt.Sprintf("the deadline passed after %d tokens", s.generated()))
}

func (s *sequence) prompt() int    { return len(s.seq.PromptIds) }
func (s *sequence) generated() int { return len(s.ids) - s.prompt() }
func (s *sequence) pending() int   { return s.rows() - s.done }
func (s *sequence) decoding() bool { return s.pending() == 1 && s.unread() == 0 }
func (s *sequence) scores() bool   { return s.seq.Score != "" }

// source is how many ids an encoder reads, unread how many it has yet to.
func (s *sequence) source() int { return int(s.seq.Source) }
func (s *sequence) unread() int { return max(0, s.source()-s.done) }

// fills says that tokens fill places of the prompt; they pass no layer themselves.
func (s *sequence) fills() bool { return s.source() == s.prompt() }

// rows is how many ids pass the layers.
func (s *sequence) rows() int {
	if s.fills() {
		return s.prompt()
	}
	return len(s.ids)
}

// mayStep says whether it has pages, and is neither with a worker nor held up by its log.
func (s *sequence) mayStep() bool {
	return s.table != nil && s.flight == nil && !s.ended && !s.writer.Full()
}

// leaveQueue notes for how long it waited.
func (s *sequence) leaveQueue(now time.Time) {
	if s.epoch == 1 { // as for later ones, whose first owner's wait is not known
		s.queued = now.Sub(s.accepted)
	}
}

// free gives back what it holds.
func (s *sequence) free() {
	if s.table != nil {
		s.table.Release()
	}
	s.release()
}

// positions is the most that the sequence will ever need in the KV cache.
func (s *sequence) positions() int { return edge.Positions(s.seq) }

// take adds a generated token and returns its record.
func (s *sequence) take(c sampling.Choice) *pb.Token {
	t := &pb.Token{Index: int32(s.generated()), Id: c.ID, Logprobs: logprobsOf(c, s.params, s.generated())}
	for _, id := range s.seq.StopTokenIds {
		t.Stop = t.Stop || id == c.ID
	}
	s.ids = append(s.ids, c.ID)
	s.measure()
	s.finishIfLast(t)
	return t
}

func (s *sequence) finishIfLast(t *pb.Token) {
	switch {
	case t.Stop:
		s.end = &pb.Terminal{FinishReason: "stop"}
	case len(s.seq.Fill) > 0 && s.generated() == len(s.seq.Fill):
		s.end = &pb.Terminal{FinishReason: "stop"} // nothing is left to fill
	case s.generated() >= int(s.seq.MaxTokens):
		s.end = &pb.Terminal{FinishReason: "length"}
	}
}

func logprobsOf(c sampling.Choice, p sampling.Params, index int) *pb.TokenLogprobs {
	if p.Logprobs < 0 {
		return nil
	}
	out := &pb.TokenLogprobs{Index: int32(index), Chosen: &pb.TokenLogprob{Id: c.ID, Logprob: c.Logprob}}
	for _, t := range c.Top {
		out.Top = append(out.Top, &pb.TokenLogprob{Id: t.ID, Logprob: t.Logprob})
	}
	return out
}

// timings are in seconds since acceptance.
func (s *sequence) timings(now time.Time) *pb.Timings {
	t := &pb.Timings{Queue: s.queued.Seconds(), Total: now.Sub(s.accepted).Seconds()}
	if !s.first.IsZero() {
		t.Ttft = s.first.Sub(s.accepted).Seconds()
	}
	return t
}
