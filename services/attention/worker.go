package attention

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/sampling"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// microbatch is what a worker takes through the layers, and what came of it.
type microbatch struct {
	parts []part
	stamp *pb.Stamp // what gates obey in this step; nil: nothing
	end   time.Time // the last deadline of its sequences; zero: one has none
	err   error
	rows  int
	// What the pace of later ones is made of, beside its rows.
	prefill       bool
	wanted        int // rows with logits
	layers, heads time.Duration
}

// part is one sequence's rows in a microbatch.
type part struct {
	s    *sequence
	rows int
	// Filled by the worker: the next token if the sequence's last row was in it, or
	// those that fill places; and the scores of prompt positions.
	choices []sampling.Choice
	scores  []*pb.Score
	fates   *pb.Fates // of its rows; nil: all slots had their own experts
	cost    cost      // of its rows
}

// shares are what each sequence had of the microbatch.
func (mb *microbatch) shares() []ledger.Part {
	all := make([]ledger.Part, len(mb.parts))
	for i, p := range mb.parts {
		all[i] = ledger.Part{Request: p.s.seq.RequestId, First: p.s.done, Rows: p.rows, Tokens: len(p.choices)}
	}
	return all
}

// owner is whose a row is: id at of a part's sequence.
type owner struct {
	*part
	at int
}

// worker runs one microbatch at a time.
type worker struct {
	step     forward.Step
	remote   *remote
	tracer   *telemetry.Tracer
	stats    *stats
	pulse    pulse
	choose   sampling.Batch
	rows     []forward.Row
	owners   []owner   // of the rows
	outcomes []outcome // rows that have had logits
	in       chan *microbatch
}

func newWorker(backbone *forward.Backbone, r *remote, tracer *telemetry.Tracer, st *stats) *worker {
	w := &worker{remote: r, tracer: tracer, stats: st, in: make(chan *microbatch, 1)}
	w.step = forward.Step{Backbone: backbone, MoE: r, Progress: &w.pulse.progress, Clock: &forward.Clock{}}
	r.progress = &w.pulse.progress
	return w
}

func (w *worker) run(ctx context.Context, finished chan<- *microbatch) {
	for {
		select {
		case <-ctx.Done():
			return
		case mb := <-w.in:
			w.pulse.begin()
			mb.err = w.forward(ctx, mb)
			w.pulse.rest()
			select {
			case finished <- mb:
			case <-ctx.Done():
				return
			}
		}
	}
}

// panicError is a fault that a microbatch met.
type panicError struct{ value any }

// Error has the value that the step panicked with.
func (p *panicError) Error() string { return fmt.Sprintf("panic in a step: %v", p.value) }

// forward takes a microbatch through the layers. What panics in it, because of
// a message that said what nobody foresaw, fails these rows and nothing else.
func (w *worker) forward(ctx context.Context, mb *microbatch) (err error) {
	ctx, stop := mb.until(ctx)
	defer stop()
	ctx, watch, end := beginStep(ctx, w.tracer, mb)
	defer end()
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
			w.stats.panicked(v, debug.Stack())
		}
	}()
	w.step.Watch = watch
	w.rows, w.owners = w.rows[:0], w.owners[:0]
	for i := range mb.parts {
		w.appendRows(&mb.parts[i])
	}
	w.remote.probe = mb.probes()
	w.remote.begin(ctx, runsOf(mb), mb.stamp, mb.end)
	err = w.compute(ctx, mb)
	if err != nil && errors.Is(context.Cause(ctx), errPassed) {
		return errPassed
	}
	return err
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

func (w *worker) compute(ctx context.Context, mb *microbatch) error {
	began := time.Now()
	w.remote.layers = w.remote.layers[:0]
	if err := w.step.Run(ctx, w.rows); err != nil {
		return err
	}
	w.scoreRead()
	mb.layers = time.Since(began)
	err := w.step.Logits(ctx, func(rows []int, logits []float32) {
		mb.wanted += len(rows)
		w.settle(rows, logits)
	})
	if err != nil {
		return err
	}
	mb.heads = time.Since(began) - mb.layers
	w.remote.tellRows(mb)
	w.stats.step(mb, &ledger.Step{Number: w.remote.step, Began: began, Rows: mb.rows, Own: w.step.Clock.Spent, Layers: w.remote.layers})
	return nil
}

func (w *worker) appendRows(p *part) {
	s := p.s
	for at := s.done; at < s.done+p.rows; at++ {
		row := w.step.Backbone.Row(s.table, s.ids, at, s.source(), s.seq.TokenTypes)
		row.Logits, row.Long = !row.Encode && (s.chooses(at) || s.wantsScore(at)), s.long
		w.rows = append(w.rows, row)
		w.owners = append(w.owners, owner{p, at})
	}
}

// chooses says whether the logits of id at are for choosing a token.
func (s *sequence) chooses(at int) bool {
	return s.place(at) >= 0 || at == len(s.ids)-1 && !s.fills()
}

// place is which of the sequence's tokens fills a position; -1: none, or it has.
func (s *sequence) place(at int) int {
	i, ok := slices.BinarySearch(s.seq.Fill, uint32(at))
	if !ok || i < s.generated() || i >= int(s.seq.MaxTokens) {
		return -1
	}
	return i
}

// scoreRead scores what the encoder before a decoder has read: it has no logits.
func (w *worker) scoreRead() {
	for i, row := range w.rows {
		p, at := w.owners[i].part, w.owners[i].at
		if !row.Encode || !p.s.wantsScore(at) {
			continue
		}
		score := &pb.Score{Position: int32(at)}
		if p.s.seq.Score == "logits" {
			score.Hidden = slices.Clone(w.step.Hidden(i))
		}
		p.scores = append(p.scores, score)
	}
}

func (s *sequence) wantsScore(pos int) bool {
	return s.scores() && pos < s.prompt() && pos >= s.scored
}

// withLogits is how many of the pending rows want logits; they are the last ones.
func (s *sequence) withLogits() int {
	switch {
	case s.unread() > 0 && !s.fills():
		return 0
	case !s.scores():
		return max(1, len(s.seq.Fill))
	}
	return max(1, s.prompt()-max(s.done, s.scored))
}

// outcome is what came of a row's logits.
type outcome struct {
	score  *pb.Score // or nil
	chosen bool
	choice sampling.Choice
}

// settle uses the logits (n, vocab) of rows, side by side, and hands the outcome to their parts in order.
func (w *worker) settle(rows []int, logits []float32) {
	vocab := len(logits) / len(rows)
	w.outcomes = tensor.Resize(w.outcomes, len(rows))
	w.choose.Each(len(rows), vocab, func(sampler *sampling.Sampler, i int) {
		of := w.owners[rows[i]]
		w.outcomes[i] = of.s.settle(sampler, of.at, logits[i*vocab:(i+1)*vocab])
	})
	for i, row := range rows {
		p, got := w.owners[row].part, w.outcomes[i]
		if got.score != nil {
			p.scores = append(p.scores, got.score)
		}
		if got.chosen {
			p.choices = append(p.choices, got.choice)
		}
	}
}

// settle uses the logits (vocab) of id at. It changes nothing of the sequence.
func (s *sequence) settle(sampler *sampling.Sampler, at int, logits []float32) (got outcome) {
	if s.wantsScore(at) {
		got.score = score(s, at, logits)
	}
	index := max(s.generated(), s.place(at))
	if got.chosen = s.chooses(at) && index < int(s.seq.MaxTokens); got.chosen {
		got.choice = sampler.Next(logits, s.params, s.said(), index)
	}
	return got
}

// said is what a repetition repeats: what a decoder has seen and made.
func (s *sequence) said() []uint32 {
	if s.fills() {
		return s.seq.PromptIds
	}
	return s.ids[s.source():]
}

// score is what logits say of the id after at or, where all positions are seen,
// of the id itself.
func score(s *sequence, at int, logits []float32) *pb.Score {
	out, next := &pb.Score{Position: int32(at)}, at+1
	if s.fills() {
		next = at
	}
	if next < s.prompt() {
		lp := logits[s.seq.PromptIds[next]] - sampling.LogSumExp(logits)
		out.Logprob = &lp
	}
	if s.seq.Score == "logits" {
		out.Logits = slices.Clone(logits)
	}
	return out
}

// newMicrobatch marks the chosen sequences as in flight.
func newMicrobatch(ready []*sequence, takes []batching.Take) *microbatch {
	mb := &microbatch{parts: make([]part, len(takes))}
	for i, t := range takes {
		s := ready[t.Index]
		s.flight = mb
		mb.prefill = mb.prefill || !s.decoding()
		mb.parts[i] = part{s: s, rows: t.Rows}
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
