package engine

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// Sequence is a request that this replica owns. The engine's goroutine changes
// it, but for ids, done and table while a worker has it (flight).
type Sequence struct {
	content
	seat
	shared
	claim
	lifetime

	long bool // the ids that are done were computed for a long sequence
	// strange is told of fates in the log that cannot be those of a token.
	strange func(token int32, why error)
	// isLong reports whether a sequence of so many tokens is a long one; nil: none is.
	isLong func(length int) bool

	params     sampling.Params
	acceptance batching.Acceptance
	kept
	flow schemas.Flow
	// account is its flow's, when it was asked last.
	account *admission.Flow

	flight *microbatch // that it travels in; nil: none
	flying int         // with how many rows
	// suspect was in a microbatch that panicked.
	suspect bool
	// doubtful is one of which owner after owner made nothing: it steps in trials.
	doubtful bool
	// fault is the panic that ended it.
	fault error
	// ended is set once a terminal record is queued; why is it for an early end.
	ended bool
	end   *pb.Terminal

	fates    logFates         // of rows since the newest token
	past     past             // what became of those before
	slots    wire.FatesShape  // layers with experts, and slots, of a row
	fateRoom int              // bytes that fates may have in a record
	degraded wire.FateCounter // up to that, by owners before included
	cost     layer.Cost       // of all its rows, those of owners before included

	traceparent string // empty: not sampled
}

// claim is what makes a sequence this replica's.
type claim struct {
	writer   logWriter
	epoch    uint64 // of the claim on the log
	delivery *renewal.Hold
	release  func(ids int) // gives the admission slot back; it had so many ids
}

// seat is a sequence's place among the pages.
type seat struct {
	table     *kvcache.Table // nil while it waits for pages
	admission uint64         // 1, 2, … as sequences got their first pages; 0: it never had any
	asides    int            // how often it gave them back
	guest     bool           // has pages for its first turn, which no other sequence takes from it
}

// ahead is for how many more positions there must be room when it is seated, for it
// and for each that runs: twice as many each time, so that it steps aside a few times
// at most, and not before somebody has got that far.
func (s *seat) ahead() int { return kvcache.PagePositions << min(s.asides, 24) }

// logWriter is tokenlog.Writer's part that a sequence needs.
type logWriter interface {
	Append(*pb.Record) error
	Full() bool
	Flush(ctx context.Context) error
	Done() <-chan struct{}
}

func newSequence(seq *pb.Sequence) *Sequence {
	return &Sequence{
		content: content{seq: seq, ids: append([]uint32(nil), seq.PromptIds...)}, flow: schemas.FlowOf(seq.Accept),
		params: edge.ParamsOf(seq), strange: func(int32, error) {}, fateRoom: maxFates,
	}
}

// Resume takes in what its log has, after it was claimed. It may take no longer than longest
// since it was accepted.
func (s *Sequence) Resume(w *tokenlog.Writer, history []tokenlog.Entry, longest time.Duration) {
	s.writer, s.epoch, s.doubtful = w, w.Epoch(), w.Doubtful()
	s.restore(history, time.Now())
	s.endBefore(longest)
}

// measure begins anew once the sequence is long: all of its positions are then
// computed in another way, and what the cache holds is of no use.
func (s *Sequence) measure() {
	if s.isLong == nil {
		return
	}
	if long := s.isLong(len(s.ids)); long != s.long {
		s.long, s.done = long, 0
		if s.table != nil {
			s.table.Renew()
		}
	}
}

// restore takes in what the log already has, so that the sequence goes on
// where its last owner stopped. now is this host's time of the newest entry.
func (s *Sequence) restore(history []tokenlog.Entry, now time.Time) {
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
			s.remember(k.Token)
			s.ids = append(s.ids, k.Token.Id)
			s.read(k.Token)
			s.cost, s.degraded = layer.CostOf(k.Token.Cost), wire.FateCounterOf(k.Token.Degraded)
			s.finishIfLast(k.Token)
		}
	}
	if s.cursor != nil && s.end == nil {
		s.cursor.Mask()
		s.end = s.unfollowed()
	}
	s.measure()
}

// remember takes in what became of the rows of the next token. What cannot be of them is passed over:
// they then have their own experts.
func (s *Sequence) remember(t *pb.Token) {
	if s.source() > 0 || len(t.Fates) == 0 {
		return
	}
	rows := 1
	if s.generated() == 0 {
		rows = s.prompt()
	}
	if err := checkPast(t.Fates, rows, s.slots.Layers, s.slots.Slots); err != nil {
		s.strange(t.Index, err)
		return
	}
	s.past.take(s.logged(), t.Fates)
}

// weight is its tenant's share beside others.
func (s *Sequence) weight() float64 { return float64(s.seq.Accept.GetWeight()) }

// mayStep reports whether it has pages, and is neither with a worker nor held up by its log or grammar.
func (s *Sequence) mayStep() bool {
	return s.table != nil && s.flight == nil && !s.ended && !s.away && !s.writer.Full()
}

// free gives back what it holds.
func (s *Sequence) free() {
	if s.table != nil {
		s.table.Release()
	}
	s.release(len(s.ids))
}

// take adds a generated token and returns its record.
func (s *Sequence) take(c sampling.Choice) *pb.Token {
	t := &pb.Token{Index: int32(s.generated()), Id: c.ID, Logprobs: logprobsOf(c, s.params, s.generated())}
	if s.generated() == 0 {
		t.Cached = int32(s.cached)
	}
	for _, id := range s.seq.StopTokenIds {
		t.Stop = t.Stop || id == c.ID
	}
	s.ids = append(s.ids, c.ID)
	s.follow(t)
	s.measure()
	s.finishIfLast(t)
	return t
}

func (s *Sequence) finishIfLast(t *pb.Token) {
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
	out.Top = candidates(c.Top)
	return out
}

func candidates(all []sampling.Candidate) (out []*pb.TokenLogprob) {
	for _, t := range all {
		out = append(out, &pb.TokenLogprob{Id: t.ID, Logprob: t.Logprob})
	}
	return out
}

// microbatch is what a worker takes through the layers, and what came of it.
type microbatch struct {
	parts []part
	order *layer.Order // what gates obey in this step; nil: nothing
	end   time.Time    // the last deadline of its sequences; zero: one has none
	err   error
	rows  int
	// What the pace of later ones is made of, beside its rows.
	prompts       int // rows of prompts
	wanted        int // rows with logits
	layers, heads time.Duration
	// curve is what the step would have accessed at thresholds from 0 to 1; nil: nobody asked.
	curve []uint32
	// stalls is what of layers was waiting for experts' weights: fewer rows wait for as much.
	stalls time.Duration
}

// part is one sequence's rows in a microbatch.
type part struct {
	s      *Sequence
	rows   int
	tokens []uint32 // the sequence's ids, and drafted ones behind them
	// drafted is how many of the rows are of drafted tokens, the last ones, and matched behind how
	// many matching tokens they stood.
	drafted, matched int
	// Filled by the worker: the next token if the sequence's last row was in it, or
	// those that fill places; and the scores of prompt positions.
	choices []sampling.Choice
	scores  []*pb.Score
	end     *pb.Terminal // why no next token can be chosen, or nil
	fates   *pb.Fates    // of its rows; nil: all slots had their own experts
	cost    layer.Cost   // of its rows
	// own says that each slot has its own expert, whatever the stamp says, and threshold is the
	// lowest of the stamp for one of its rows, in millionths.
	own       bool
	threshold uint32
	rejected  int // of the drafted tokens
}

// seconds is what the step took, but for waiting for experts' weights.
func (mb *microbatch) seconds() float64 { return max(0, mb.layers+mb.heads-mb.stalls).Seconds() }

// shares are what each sequence had of the microbatch.
func (mb *microbatch) shares() []ledger.Part {
	all := make([]ledger.Part, len(mb.parts))
	for i, p := range mb.parts {
		all[i] = ledger.Part{Request: p.s.seq.RequestId, First: p.s.done, Rows: p.rows, Tokens: len(p.choices)}
	}
	return all
}

// errPassed says that the deadlines of all sequences of a microbatch have passed.
var errPassed = errors.New("no sequence waits for this step any more")

// until ends a step when nobody waits for it any more.
func (mb *microbatch) until(ctx context.Context) (context.Context, context.CancelFunc) {
	if mb.end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, mb.end, errPassed)
}

// probes reports whether all rows are of canaries.
func (mb *microbatch) probes() bool {
	for i := range mb.parts {
		if !mb.parts[i].s.flow.IsCanary() {
			return false
		}
	}
	return true
}

// newMicrobatch marks the chosen sequences as in flight.
func newMicrobatch(ready []*Sequence, takes []batching.Take) *microbatch {
	mb := &microbatch{parts: make([]part, len(takes))}
	for i, t := range takes {
		s := ready[t.Index]
		s.flight = mb
		if !s.decoding() {
			mb.prompts += t.Rows
		}
		mb.parts[i] = part{s: s, rows: t.Rows, tokens: s.ids}
		mb.rows += t.Rows
	}
	mb.end = lastDeadline(mb.parts)
	return mb
}

// lastDeadline is when the last sequence's time is over; zero: one's never is.
func lastDeadline(parts []part) (end time.Time) {
	for i := range parts {
		switch of := parts[i].s.deadline; {
		case of.IsZero():
			return of
		case of.After(end):
			end = of
		}
	}
	return end
}
