package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
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

const (
	// maxFates bounds the bytes of fates in a record of a token; longer ones are omitted.
	maxFates = 256 << 10
	// fatesRoom is what the fates of a step take beside their codes, with rows before them that have none.
	fatesRoom = 64
)

// roomOfFates is how many bytes of a record fates may have where the server takes so many of a message.
func roomOfFates(payload int64) int { return int(min(maxFates, payload/4)) }

// logFates is what became of a sequence's rows since its newest token, for the next one's record.
type logFates struct {
	list     []*pb.Fates
	plain    int // the newest ones, all of whose slots had their own experts
	bytes    int
	degraded wire.FateCounter
}

// add takes in what became of so many rows, which are not counted as done yet, under a threshold. of
// covers only rows that are not logged yet; rows that are computed again for the cache are not in it.
func (l *logFates) add(c *content, rows int, of *pb.Fates, millionths uint32) {
	base := c.logged()
	if c.done <= base {
		*l = logFates{}
	}
	if of == nil {
		l.plain += max(0, c.done+rows-max(base, c.done))
		return
	}
	l.degraded.Add(of, millionths)
	l.flush(of)
	if l.bytes += len(of.Codes) + fatesRoom; l.bytes <= maxFates {
		l.list = append(l.list, of)
		return
	}
	omitted := wire.PlainFates(wire.FatesShapeOf(of))
	omitted.Omitted = true
	l.list = append(l.list[:0], omitted)
}

// holds reports whether the fates of so many rows more fit into a room, whatever becomes of them.
func (l *logFates) holds(rows, slots, room int) bool {
	return l.bytes+rows*(slots+3)/4+rows+fatesRoom <= room
}

// flush writes out rows without fates before those that have some.
func (l *logFates) flush(like *pb.Fates) {
	if l.plain > 0 {
		l.list = append(l.list, wire.PlainFates(wire.FatesShape{Rows: l.plain, Layers: int(like.Layers), Slots: int(like.Slots)}))
		l.plain = 0
	}
}

// give returns what the next token's record has, and begins anew. What was degraded it adds to a counter.
func (l *logFates) give(onto *wire.FateCounter) []*pb.Fates {
	onto.Merge(l.degraded)
	out, plain := l.list, l.plain
	if len(out) > 0 && plain > 0 {
		l.flush(out[0])
		out = l.list
	}
	*l = logFates{}
	return out
}

// handOverWithin bounds the wait for the logs of a replica that stops.
const handOverWithin = 2 * time.Second

// handOver lets another replica go on with what a scheduler leaves, at once, and from where
// this one stopped.
func handOver(ctx context.Context, log *slog.Logger, closing []logWriter, open []*Sequence) {
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	var flushing sync.WaitGroup
	for _, w := range closing {
		flushing.Go(func() { flush(ctx, log, w) })
	}
	for _, s := range open {
		flushing.Go(func() {
			flush(ctx, log, s.writer)
			if err := s.delivery.Nak(0); err != nil {
				log.Debug("handing over", "request", s.seq.RequestId, "error", err)
			}
		})
	}
	flushing.Wait()
}

// flush waits for a log's records. What is not stored in time is lost, and the
// next owner makes it again.
func flush(ctx context.Context, log *slog.Logger, w logWriter) {
	if err := w.Flush(ctx); err != nil {
		log.Info("handing over a log", "error", err)
	}
}

// watcher makes spans of a step's parts.
type watcher struct {
	tracer *telemetry.Tracer
	step   int
}

// Begin implements forward.Watcher.
func (w watcher) Begin(ctx context.Context, part string, layer int) (context.Context, func()) {
	ctx, span := w.tracer.Child(ctx, part, telemetry.Layer(uint32(layer)), trace.WithAttributes(telemetry.AttrStep.Int(w.step)))
	return ctx, func() { span.End() }
}

// beginStep starts the span of a microbatch's step if one of its requests is
// sampled: in the trace of the first such request, linked to the others. The
// watcher is nil if nobody watches.
func beginStep(ctx context.Context, tracer *telemetry.Tracer, mb *microbatch) (context.Context, forward.Watcher, func()) {
	if tracer == nil {
		return ctx, nil, func() {}
	}
	var first context.Context
	var links []trace.Link
	rows := 0
	for i := range mb.parts {
		p := &mb.parts[i]
		rows += p.rows
		if p.s.traceparent == "" {
			continue
		}
		traced := telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": {p.s.traceparent}})
		if first == nil {
			first = traced
		} else {
			links = append(links, trace.LinkFromContext(traced, telemetry.AttrRequest.String(p.s.seq.RequestId)))
		}
	}
	if first == nil {
		return ctx, nil, func() {}
	}
	first, span := tracer.Child(first, telemetry.SpanStep, trace.WithLinks(links...), trace.WithAttributes(
		telemetry.AttrRows.Int(rows), telemetry.AttrStep.Int(mb.parts[0].s.generated())))
	if mb.order != nil {
		s := mb.order.Stamp
		span.SetAttributes(
			telemetry.AttrDirective.Int64(int64(s.Version)), telemetry.AttrWay.Int(int(s.Way)), telemetry.AttrStrategy.String(s.Strategy.String()),
			telemetry.AttrPrefill.Float64(float64(s.PrefillMillionths)/brownout.One), telemetry.AttrDecode.Float64(float64(s.DecodeMillionths)/brownout.One),
		)
	}
	return first, watcher{tracer, mb.parts[0].s.generated()}, func() { span.End() }
}
