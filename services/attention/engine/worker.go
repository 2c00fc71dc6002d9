package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// owner is whose a row is: id at of a part's sequence.
type owner struct {
	*part
	at int
}

// worker runs one microbatch at a time.
type worker struct {
	step     forward.Step
	remote   Remote
	tracer   *telemetry.Tracer
	stats    *stats
	watched  renewal.Worker
	choose   sampling.Batch
	rows     []forward.Row
	owners   []owner   // of the rows
	outcomes []outcome // rows that have had logits
	in       chan *microbatch
}

// Remote is layer.Remote's part that a worker needs: a layer's routed experts.
type Remote interface {
	forward.MoE
	// Begin begins a step, whose layers Start calls one after the other.
	Begin(ctx context.Context, s layer.Step)
	// Number is the step's, Layers is where the time of each of its layers went, Curve what it would
	// have accessed at other thresholds, and Outcome what became of some of its rows, and what they
	// cost.
	Number() uint64
	Layers() []ledger.Layer
	Curve() []uint32
	Outcome(first, rows int) (*pb.Fates, layer.Cost)
	// Waiting says that other services have the rows.
	Waiting() bool
}

func newWorker(backbone *forward.Backbone, remotes func(*forward.Progress) Remote, tracer *telemetry.Tracer, st *stats) *worker {
	w := &worker{tracer: tracer, stats: st, in: make(chan *microbatch, 1)}
	w.remote = remotes(&w.watched.Progress)
	w.watched.Waits = w.remote.Waiting
	w.step = forward.Step{Backbone: backbone, MoE: w.remote, Progress: &w.watched.Progress, Clock: &forward.Clock{}}
	return w
}

func (w *worker) run(ctx context.Context, finished chan<- *microbatch) {
	for {
		select {
		case <-ctx.Done():
			return
		case mb := <-w.in:
			w.watched.Begin()
			w.choose.Pool.BeginStep()
			mb.err = w.forward(ctx, mb)
			w.choose.Pool.EndStep()
			w.watched.Rest()
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
	w.remote.Begin(ctx, layer.Step{Runs: runsOf(mb), Order: mb.order, Replay: mb.replays(), End: mb.end, Probe: mb.probes()})
	err = w.compute(ctx, mb)
	if err != nil && errors.Is(context.Cause(ctx), errPassed) {
		return errPassed
	}
	return err
}

func (w *worker) compute(ctx context.Context, mb *microbatch) error {
	began := time.Now()
	if err := w.step.Run(ctx, w.rows); err != nil {
		return err
	}
	w.scoreRead()
	mb.layers = time.Since(began)
	for _, l := range w.remote.Layers() {
		mb.stalls += l.By[ledger.ExpertStall]
	}
	err := w.step.Logits(ctx, func(rows []int, logits []float32) {
		mb.wanted += len(rows)
		w.settle(rows, logits)
	})
	if err != nil {
		return err
	}
	mb.heads = time.Since(began) - mb.layers
	w.tellRows(mb)
	for i := range mb.parts {
		mb.parts[i].accept()
	}
	mb.curve = w.remote.Curve()
	w.stats.step(mb, &ledger.Step{Number: w.remote.Number(), Began: began, Rows: mb.rows, Own: w.step.Clock.Spent, Layers: w.remote.Layers()})
	return nil
}

// tellRows gives the parts of a microbatch what became of their rows, as far as it is not in the log,
// and what they cost.
func (w *worker) tellRows(mb *microbatch) {
	first := 0
	for i := range mb.parts {
		p := &mb.parts[i]
		p.fates, p.cost = w.remote.Outcome(first, p.rows)
		if again := min(p.s.logged()-p.s.done, p.rows); again > 0 {
			p.fates, _ = w.remote.Outcome(first+again, p.rows-again)
		}
		first += p.rows
	}
}

func (w *worker) appendRows(p *part) {
	s := p.s
	for at := s.done; at < s.done+p.rows; at++ {
		row := w.step.Backbone.Row(s.table, p.tokens, at, s.source(), s.seq.TokenTypes)
		row.Logits, row.Long = !row.Encode && (s.chooses(at) || s.wantsScore(at)), s.long
		w.rows = append(w.rows, row)
		w.owners = append(w.owners, owner{p, at})
	}
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

// outcome is what came of a row's logits.
type outcome struct {
	score  *pb.Score // or nil
	chosen bool
	choice sampling.Choice
	end    *pb.Terminal // why no token can be chosen, or nil
}

// settle uses the logits (n, vocab) of rows, side by side, and hands the outcome to their parts in order.
func (w *worker) settle(rows []int, logits []float32) {
	vocab := len(logits) / len(rows)
	w.outcomes = reuse.Slice(w.outcomes, len(rows))
	w.choose.Each(len(rows), vocab, func(sampler *sampling.Sampler, i int) {
		of := w.owners[rows[i]]
		w.outcomes[i] = of.settle(sampler, of.at, logits[i*vocab:(i+1)*vocab])
	})
	for i, row := range rows {
		p, got := w.owners[row].part, w.outcomes[i]
		if got.score != nil {
			p.scores = append(p.scores, got.score)
		}
		p.end = cmp.Or(p.end, got.end)
		if got.chosen && p.end == nil {
			p.choices = append(p.choices, got.choice)
		}
	}
}

// settle uses the logits (vocab) of id at. It changes nothing of the sequence.
func (p *part) settle(sampler *sampling.Sampler, at int, logits []float32) (got outcome) {
	s := p.s
	if s.wantsScore(at) {
		got.score = score(s, at, logits)
	}
	index := s.index(at)
	if got.chosen = s.chooses(at) && index < int(s.seq.MaxTokens); got.chosen {
		got.choice, got.end = s.next(sampler, logits, p.tokens, at)
	}
	return got
}

// next chooses the id after at, of some tokens, or says why none can be chosen.
func (s *Sequence) next(sampler *sampling.Sampler, logits []float32, tokens []uint32, at int) (c sampling.Choice, end *pb.Terminal) {
	params, ok := s.restrict(s.params)
	if !ok {
		return c, stuck()
	}
	if c = sampler.Next(logits, params, s.said(tokens, at), s.index(at)); c.Unreal {
		return c, ErrorEnd(internal, "the model's logits are no finite numbers; its weights are damaged, or too large for their type: see what switchyard verify says of it")
	}
	return c, nil
}

// score is what logits say of the id after at or, where all positions are seen,
// of the id itself.
func score(s *Sequence, at int, logits []float32) *pb.Score {
	out, next := &pb.Score{Position: int32(at)}, at+1
	if s.fills() {
		next = at
	}
	if next < s.prompt() {
		lp := logits[s.seq.PromptIds[next]] - sampling.LogSumExp(logits)
		out.Logprob = &lp
	}
	if n := s.params.Logprobs; n > 0 && s.seq.Score == "logprobs" {
		out.Top = candidates(sampling.Best(logits, n))
	}
	if s.seq.Score == "logits" {
		out.Logits = slices.Clone(logits)
	}
	return out
}
