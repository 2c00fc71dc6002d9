package engine

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
)

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

// answers is how many rows are of answers, drafted ones included.
func (mb *microbatch) answers() int { return mb.rows - mb.prompts }

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

// probes says whether all rows are of canaries.
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
