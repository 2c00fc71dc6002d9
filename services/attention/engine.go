package attention

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// engine owns the sequences: one goroutine decides what steps next, workers
// compute, and what they made goes to the token log.
//
//	admitted ──▶ in line for pages ──▶ ready ──launch──▶ in flight ──settle──▶ ready … ──▶ ended
type engine struct {
	policy batching.Policy
	pace   batching.Pace
	log    *slog.Logger
	stats  *stats
	pulse  pulse
	keeper *keeper

	admitted chan *sequence
	finished chan *microbatch
	cancels  chan *pb.Cancel
	lost     chan lostLog
	asks     chan ownership
	room     chan struct{}

	sequences map[string]*sequence
	order     []*sequence // oldest served first
	line      kvcache.Line[*sequence]
	workers   []*worker
	idle      []*worker
	busy      map[*microbatch]*worker
	// closing are logs whose terminal record may not be stored yet.
	closing []logWriter

	items []batching.Item
	ready []*sequence
	takes []batching.Take
}

// lostLog says that a sequence's log takes no more of it.
type lostLog struct {
	request string
	writer  logWriter
	full    error // its end is queued, since there was no room; nil: it is not ours to write
}

// heartbeatEvery is how often deadlines are looked at.
const heartbeatEvery = 400 * time.Millisecond

func newEngine(policy batching.Policy, workers []*worker, log *slog.Logger, st *stats) *engine {
	e := &engine{
		policy: policy, workers: workers, log: log, stats: st, idle: append([]*worker(nil), workers...),
		admitted: make(chan *sequence), finished: make(chan *microbatch, len(workers)),
		cancels: make(chan *pb.Cancel, 64), lost: make(chan lostLog, 64), asks: make(chan ownership), room: make(chan struct{}, 1),
		sequences: map[string]*sequence{}, busy: map[*microbatch]*worker{},
	}
	e.keeper = newKeeper(log, &e.pulse, workers)
	return e
}

// run drives the engine until the context ends; then it hands over what it has.
func (e *engine) run(ctx context.Context) {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	e.pulse.begin()
	for {
		e.launch()
		e.pulse.progress.Tick()
		select {
		case <-ctx.Done():
			e.handOver(context.WithoutCancel(ctx))
			return
		case s := <-e.admitted:
			e.add(s)
		case mb := <-e.finished:
			e.settle(mb)
		case c := <-e.cancels:
			e.cancel(c)
		case l := <-e.lost:
			e.drop(l)
		case o := <-e.asks:
			o.answer <- e.sequences[o.request] != nil
		case <-e.room: // a log takes records again
		case now := <-tick.C:
			e.heartbeat(now)
		}
	}
}

func (e *engine) add(s *sequence) {
	id := s.seq.RequestId
	if old := e.sequences[id]; old != nil && old.epoch > s.epoch {
		s.delivery.drop() // its claim took long, and the request came again
		s.free()
		return
	} else if old != nil {
		e.abandon(old) // its log is s's now
	}
	e.sequences[id] = s
	e.order = append(e.order, s)
	e.stats.active(len(e.sequences))
	if s.end != nil {
		e.finish(s)
		return
	}
	e.line.Join(s, kvcache.PagesFor(s.positions()))
	e.serve()
}

// launch fills idle workers with what is ready.
func (e *engine) launch() {
	for len(e.idle) > 0 {
		e.collect()
		e.takes = e.policy.Next(e.items, e.decoding(), &e.pace, e.takes)
		if len(e.takes) == 0 {
			return
		}
		mb := newMicrobatch(e.ready, e.takes)
		e.rotate(mb)
		l := e.idle[len(e.idle)-1]
		e.idle = e.idle[:len(e.idle)-1]
		e.assign(mb, l)
		l.in <- mb
	}
}

// assign says which worker has a microbatch; nil: it is back.
func (e *engine) assign(mb *microbatch, l *worker) {
	if l == nil {
		e.idle = append(e.idle, e.busy[mb])
		delete(e.busy, mb)
	} else {
		e.busy[mb] = l
	}
	for i := range mb.parts {
		mb.parts[i].s.delivery.worker.Store(l)
	}
}

func (e *engine) collect() {
	e.items, e.ready = e.items[:0], e.ready[:0]
	for _, s := range e.order {
		if s.inFlight || s.ended || s.table == nil || s.writer.Full() {
			continue
		}
		it := batching.Item{Alone: s.suspect}
		if !s.decoding() {
			it.Prefill, it.Scored = s.pending(), s.withLogits()
		}
		e.items, e.ready = append(e.items, it), append(e.ready, s)
	}
}

func (e *engine) decoding() (n int) {
	for _, s := range e.order {
		if !s.ended && s.table != nil && s.decoding() && (s.inFlight || !s.writer.Full()) {
			n++
		}
	}
	return n
}

// rotate moves the chosen to the end of the order, so that all get their turn.
func (e *engine) rotate(mb *microbatch) {
	kept := e.order[:0]
	for _, s := range e.order {
		if !inMicrobatch(mb, s) {
			kept = append(kept, s)
		}
	}
	for i := range mb.parts {
		kept = append(kept, mb.parts[i].s)
	}
	e.order = kept
}

func inMicrobatch(mb *microbatch, s *sequence) bool {
	for i := range mb.parts {
		if mb.parts[i].s == s {
			return true
		}
	}
	return false
}

// settle takes a microbatch's results in.
func (e *engine) settle(mb *microbatch) {
	e.assign(mb, nil)
	if mb.prefill && mb.err == nil {
		e.pace.Observe(mb.rows, mb.layers.Seconds(), mb.wanted, mb.heads.Seconds())
	}
	var fault *panicError
	for i := range mb.parts {
		p := &mb.parts[i]
		p.s.inFlight = false
		switch {
		case p.s.ended:
			e.remove(p.s) // ended while it was in flight
		case errors.Is(mb.err, context.Canceled):
			// This replica stops, and hands the sequence over.
		case errors.As(mb.err, &fault) && len(mb.parts) > 1:
			p.s.suspect = true // one of them did it: each is tried alone
		case mb.err != nil:
			e.stepFailed(p.s, mb.err)
		default:
			p.s.suspect = false
			e.advance(p)
		}
	}
}

func (e *engine) stepFailed(s *sequence, err error) {
	e.log.Error("step abandoned", "request", s.seq.RequestId, "error", err)
	s.end = errorEnd("internal", err.Error())
	e.finish(s)
}

func errorEnd(code, message string) *pb.Terminal {
	return &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: code, Message: message}}
}

// advance writes what a step made of a sequence to its log.
func (e *engine) advance(p *part) {
	s := p.s
	s.done += p.rows
	for i := 0; i < len(p.scores) && s.end == nil; i++ {
		s.scored++
		e.append(s, &pb.Record{Kind: &pb.Record_Score{Score: p.scores[i]}})
	}
	switch {
	case s.end != nil: // a record could not be written; what comes behind it would leave a gap
	case p.sampled:
		if s.generated() == 0 {
			s.first = time.Now()
		}
		e.append(s, &pb.Record{Kind: &pb.Record_Token{Token: s.take(p.choice)}})
	case s.done == len(s.ids):
		s.end = &pb.Terminal{FinishReason: "length"} // nothing but scores was asked for
	}
	if s.end != nil {
		e.finish(s)
	}
}

// append queues a record. One that cannot be written ends its sequence.
func (e *engine) append(s *sequence, r *pb.Record) {
	e.pulse.progress.Tick()
	err := s.writer.Append(r)
	var large *bus.TooLargeError
	switch {
	case err == nil:
	case errors.Is(err, tokenlog.ErrStale), errors.Is(err, tokenlog.ErrFinished):
		// Another owner makes this record, or nobody needs it; drop follows.
		e.log.Info("log is not ours any more", "request", s.seq.RequestId, "error", err)
	case errors.As(err, &large):
		s.end = errorEnd("payload_too_large", err.Error())
	default:
		e.log.Error("a record cannot be written", "request", s.seq.RequestId, "error", err)
		s.end = errorEnd("internal", err.Error())
	}
}

// haveRoom wakes the engine: a sequence that was passed over may step again.
func (e *engine) haveRoom() {
	select {
	case e.room <- struct{}{}:
	default: // it will look anyway
	}
}

// finish queues the terminal record. The work is acknowledged when the record
// is in the log (see admit.go).
func (e *engine) finish(s *sequence) {
	s.end.Timings = s.timings(time.Now())
	e.append(s, &pb.Record{Kind: &pb.Record_Terminal{Terminal: s.end}})
	e.close(s)
}

// close lets go of a sequence whose terminal record is queued.
func (e *engine) close(s *sequence) {
	s.ended = true
	e.closing = append(e.closing, s.writer)
	e.stats.finished(s)
	if !s.inFlight {
		e.remove(s)
	}
}

// remove frees what the sequence held. It must not be in flight.
func (e *engine) remove(s *sequence) {
	e.line.Leave(s)
	s.free()
	if e.sequences[s.seq.RequestId] == s {
		delete(e.sequences, s.seq.RequestId)
	}
	kept := e.order[:0]
	for _, o := range e.order {
		if o != s {
			kept = append(kept, o)
		}
	}
	e.order = kept
	e.stats.active(len(e.sequences))
	e.serve()
}

func (e *engine) cancel(c *pb.Cancel) {
	s := e.sequences[c.RequestId]
	if s == nil || s.ended {
		return
	}
	s.end = &pb.Terminal{FinishReason: c.Reason}
	e.finish(s)
}

// heartbeat ends the sequences that are late.
func (e *engine) heartbeat(now time.Time) {
	e.closing = slices.DeleteFunc(e.closing, isClosed)
	for _, s := range slices.Clone(e.order) { // ending one changes the order
		if !s.ended && !s.deadline.IsZero() && now.After(s.deadline) {
			s.end = s.late()
			e.finish(s)
		}
	}
}
