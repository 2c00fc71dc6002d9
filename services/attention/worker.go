package attention

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
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
	err   error
	// What the pace of later ones is made of.
	prefill       bool
	rows, wanted  int // wanted: those with logits
	layers, heads time.Duration
}

// part is one sequence's rows in a microbatch.
type part struct {
	s    *sequence
	rows int
	// Filled by the worker: the next token if the sequence's last row was in it,
	// and the scores of prompt positions.
	sampled bool
	choice  sampling.Choice
	scores  []*pb.Score
}

// worker runs one microbatch at a time.
type worker struct {
	step    forward.Step
	remote  *remote
	tracer  *telemetry.Tracer
	stats   *stats
	pulse   pulse
	sampler sampling.Sampler
	rows    []forward.Row
	owners  []*part // of the rows
	in      chan *microbatch
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

func (p *panicError) Error() string { return fmt.Sprintf("panic in a step: %v", p.value) }

// forward takes a microbatch through the layers. What panics in it, because of
// a message that said what nobody foresaw, fails these rows and nothing else.
func (w *worker) forward(ctx context.Context, mb *microbatch) (err error) {
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
	w.remote.begin(ctx, runsOf(mb), mb.stamp)
	return w.compute(ctx, mb)
}

func (w *worker) compute(ctx context.Context, mb *microbatch) error {
	began := time.Now()
	w.remote.layers = w.remote.layers[:0]
	if err := w.step.Run(ctx, w.rows); err != nil {
		return err
	}
	mb.rows, mb.layers = len(w.rows), time.Since(began)
	err := w.step.Logits(ctx, func(row int, logits []float32) {
		mb.wanted++
		w.settle(w.owners[row], w.rows[row].Position, logits)
	})
	if err != nil {
		return err
	}
	mb.heads = time.Since(began) - mb.layers
	w.stats.step(mb, &ledger.Step{Number: w.remote.step, Began: began, Rows: mb.rows, Own: w.step.Clock.Spent, Layers: w.remote.layers})
	return nil
}

func (w *worker) appendRows(p *part) {
	s := p.s
	for i := range p.rows {
		pos := s.done + i
		last := pos == len(s.ids)-1
		w.rows = append(w.rows, forward.Row{
			Table: s.table, ID: s.ids[pos], Position: pos, Logits: last || s.wantsScore(pos), Long: s.long,
		})
		w.owners = append(w.owners, p)
	}
}

func (s *sequence) wantsScore(pos int) bool {
	return s.scores() && pos < s.prompt() && pos >= s.scored
}

// withLogits is how many of the pending rows want logits; they are the last ones.
func (s *sequence) withLogits() int {
	if !s.scores() {
		return 1
	}
	return max(1, s.prompt()-max(s.done, s.scored))
}

// settle uses a row's logits (vocab).
func (w *worker) settle(p *part, pos int, logits []float32) {
	s := p.s
	if s.wantsScore(pos) {
		p.scores = append(p.scores, score(s, pos, logits))
	}
	if pos == len(s.ids)-1 && s.generated() < int(s.seq.MaxTokens) {
		p.sampled = true
		p.choice = w.sampler.Next(logits, s.params, s.ids, s.generated())
	}
}

func score(s *sequence, pos int, logits []float32) *pb.Score {
	out := &pb.Score{Position: int32(pos)}
	if pos+1 < s.prompt() {
		lp := logits[s.seq.PromptIds[pos+1]] - sampling.LogSumExp(logits)
		out.Logprob = &lp
	}
	if s.seq.Score == "logits" {
		out.Logits = append([]float32(nil), logits...)
	}
	return out
}

// newMicrobatch marks the chosen sequences as in flight.
func newMicrobatch(ready []*sequence, takes []batching.Take) *microbatch {
	mb := &microbatch{parts: make([]part, len(takes))}
	for i, t := range takes {
		s := ready[t.Index]
		s.inFlight = true
		mb.prefill = mb.prefill || !s.decoding()
		mb.parts[i] = part{s: s, rows: t.Rows}
	}
	return mb
}
