package attention

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// scheduler owns the sequences and decides what becomes of them. Time and results
// are handed to it: it waits for nothing, and starts nothing but records of the
// token log, which it queues. engine drives it.
//
//	admitted ──▶ in line for pages ──▶ ready ──next──▶ in flight ──settle──▶ ready … ──▶ ended
//	                                   ready ──an older one needs pages──▶ aside ──▶ ready
type scheduler struct {
	policy   batching.Policy
	pace     batching.Pace
	now      func() time.Time
	log      *slog.Logger
	stats    *stats
	progress *forward.Progress // counts records

	sequences map[string]*sequence
	order     []*sequence // oldest served first
	line      kvcache.Line[*sequence]
	aside     []*sequence // gave their pages back, oldest first
	idle      []*worker
	busy      map[*microbatch]*worker
	trial     trial
	// closing are logs whose terminal record may not be stored yet.
	closing []logWriter
	// admissions counts sequences that were seated.
	admissions uint64
	// failures are those of the device in a row; broken is why it is not used any more.
	failures int
	broken   error
	// stamp is what gates are to obey in a step that begins now; nil: nothing.
	stamp func() *pb.Stamp
	// batches chooses in the policy's place, and again is after what time it is to be asked
	// again at the latest, if not 0; nil: the policy chooses.
	batches deployment.Batches
	again   time.Duration

	items    []batching.Item
	ready    []*sequence
	takes    []batching.Take
	outgrown []*sequence
}

func newScheduler(policy batching.Policy, workers []*worker, now func() time.Time, log *slog.Logger, st *stats) *scheduler {
	return &scheduler{
		policy: policy, now: now, log: log, stats: st, idle: slices.Clone(workers),
		sequences: map[string]*sequence{}, busy: map[*microbatch]*worker{},
	}
}

// holds says whether a request is being worked on here.
func (d *scheduler) holds(request string) bool { return d.sequences[request] != nil }

func (d *scheduler) add(s *sequence) {
	id := s.seq.RequestId
	if old := d.sequences[id]; old != nil && old.epoch > s.epoch {
		s.delivery.drop() // its claim took long, and the request came again
		s.free()
		return
	} else if old != nil {
		d.abandon(old) // its log is s's now
	}
	d.sequences[id] = s
	d.order = append(d.order, s)
	d.stats.active(len(d.sequences))
	if s.end != nil {
		d.finish(s)
		return
	}
	d.line.Join(s, d.want(s, s.ahead()))
	d.serve()
}

// next is the next microbatch and the idle worker that takes it; nil, nil: there is
// none for now.
func (d *scheduler) next() (*microbatch, *worker) {
	d.again = 0
	if len(d.idle) == 0 || d.broken != nil {
		return nil, nil
	}
	d.stretch()
	d.collect()
	if d.trial.of != nil && !d.try() {
		return nil, nil
	}
	d.choose()
	if len(d.takes) == 0 {
		return nil, nil
	}
	mb := newMicrobatch(d.ready, d.takes)
	if d.stamp != nil {
		mb.stamp = d.stamp()
	}
	d.rotate(mb)
	w := d.idle[len(d.idle)-1]
	d.idle = d.idle[:len(d.idle)-1]
	d.assign(mb, w)
	return mb, w
}

// choose says in takes what is to step next.
func (d *scheduler) choose() {
	if d.batches != nil {
		d.takes, d.again = d.batches(d.items, d.takes)
		return
	}
	d.takes = d.policy.Next(d.items, d.decoding(), &d.pace, d.takes)
}

// assign says which worker has a microbatch; nil: it is back.
func (d *scheduler) assign(mb *microbatch, w *worker) {
	if w == nil {
		d.idle = append(d.idle, d.busy[mb])
		delete(d.busy, mb)
	} else {
		d.busy[mb] = w
	}
	for i := range mb.parts {
		mb.parts[i].s.delivery.worker.Store(w)
	}
}

func (d *scheduler) collect() {
	d.items, d.ready = d.items[:0], d.ready[:0]
	for _, s := range d.order {
		switch {
		case !s.mayStep() || s.table.Positions() < s.extent():
		case s.doubtful:
			if d.trial.of == nil && len(d.ready) == 0 {
				d.trial.of = s
			}
		default:
			d.items, d.ready = append(d.items, s.item()), append(d.ready, s)
		}
	}
}

// item is the sequence as the policy sees it.
func (s *sequence) item() batching.Item {
	it := batching.Item{Alone: s.suspect || s.doubtful, Request: s.seq.RequestId, Position: s.done}
	switch n := s.unread(); {
	case n > 0:
		it.Prefill, it.Scored, it.Whole = n, s.withLogits(), true
	case !s.decoding():
		it.Prefill, it.Scored = s.pending(), s.withLogits()
	}
	return it
}

func (d *scheduler) decoding() (n int) {
	for _, s := range d.order {
		if !s.ended && !s.doubtful && s.table != nil && s.decoding() && (s.flight != nil || !s.writer.Full()) {
			n++
		}
	}
	return n
}

// rotate moves the chosen to the end of the order, so that all get their turn.
func (d *scheduler) rotate(mb *microbatch) {
	kept := d.order[:0]
	for _, s := range d.order {
		if s.flight != mb {
			kept = append(kept, s)
		}
	}
	for i := range mb.parts {
		kept = append(kept, mb.parts[i].s)
	}
	d.order = kept
}

// settle takes a microbatch's results in.
func (d *scheduler) settle(mb *microbatch) {
	d.assign(mb, nil)
	if mb.prefill && mb.err == nil {
		d.pace.Observe(mb.rows, mb.layers.Seconds(), mb.wanted, mb.heads.Seconds())
	}
	device := ofDevice(mb.err)
	switch {
	case device != nil:
		d.deviceFailed(device, mb.rows)
	case mb.err == nil:
		d.failures = 0
	}
	var fault *panicError
	for i := range mb.parts {
		p := &mb.parts[i]
		p.s.flight = nil
		switch {
		case p.s.ended:
			d.remove(p.s) // ended while it was in flight
		case errors.Is(mb.err, context.Canceled):
			// This replica stops, and hands the sequence over.
		case device != nil:
			// It steps again.
		case errors.As(mb.err, &fault) && len(mb.parts) > 1:
			p.s.suspect = true // one of them did it: each is tried alone
		case errors.Is(mb.err, errPassed):
			p.s.end = p.s.late()
			d.finish(p.s)
		case mb.err != nil:
			d.stepFailed(p.s, mb.err)
		default:
			p.s.suspect = false
			d.advance(p)
		}
		d.endTrial(p.s)
	}
}

func (d *scheduler) stepFailed(s *sequence, err error) {
	d.log.Error("step abandoned", "request", s.seq.RequestId, "error", err)
	var fault *panicError
	if errors.As(err, &fault) {
		s.fault = fault
	}
	s.end = errorEnd(codeInternal, err.Error())
	d.finish(s)
}

// codeInternal is an error of ours, as producers see it.
const codeInternal = string(edge.Internal)

func errorEnd(code, message string) *pb.Terminal {
	return &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: code, Message: message}}
}

// advance writes what a step made of a sequence to its log.
func (d *scheduler) advance(p *part) {
	s := p.s
	s.fates.add(s, p)
	s.cost.add(p.cost)
	s.done += p.rows
	s.doubtful = s.doubtful && len(p.scores)+len(p.choices) == 0
	for i := 0; i < len(p.scores) && s.end == nil; i++ {
		s.scored++
		d.append(s, &pb.Record{Kind: &pb.Record_Score{Score: p.scores[i]}})
	}
	for i := 0; i < len(p.choices) && s.end == nil; i++ { // what comes behind a record that could not be written would leave a gap
		if s.generated() == 0 {
			s.first = d.now()
			d.stats.answers(s)
		}
		token := s.take(p.choices[i])
		token.Fates, token.Cost = s.fates.give(), s.cost.record()
		d.append(s, &pb.Record{Kind: &pb.Record_Token{Token: token}})
	}
	if s.end == nil && s.pending() == 0 {
		s.end = &pb.Terminal{FinishReason: "length"} // nothing but scores was asked for
	}
	if s.end != nil {
		d.finish(s)
	}
}

// append queues a record, and says whether it could. One that cannot be written ends its sequence.
func (d *scheduler) append(s *sequence, r *pb.Record) bool {
	d.progress.Tick()
	err := s.writer.Append(r)
	var large *bus.TooLargeError
	switch {
	case err == nil:
		return true
	case errors.Is(err, tokenlog.ErrStale), errors.Is(err, tokenlog.ErrFinished):
		// Another owner makes this record, or nobody needs it; drop follows.
		d.log.Info("log is not ours any more", "request", s.seq.RequestId, "error", err)
	case errors.As(err, &large):
		s.end = errorEnd("payload_too_large", err.Error())
	default:
		d.log.Error("a record cannot be written", "request", s.seq.RequestId, "error", err)
		s.end = errorEnd(codeInternal, err.Error())
	}
	return false
}

// finish queues the terminal record. The work is acknowledged when the record
// is in the log (see admit.go).
func (d *scheduler) finish(s *sequence) {
	s.end.Timings, s.end.Cost = s.timings(d.now()), s.cost.record()
	d.append(s, &pb.Record{Kind: &pb.Record_Terminal{Terminal: s.end}})
	d.close(s)
}

// close lets go of a sequence whose terminal record is queued.
func (d *scheduler) close(s *sequence) {
	s.ended = true
	d.closing = append(d.closing, s.writer)
	d.stats.finished(s)
	if s.flight == nil {
		d.remove(s)
	}
}

// remove frees what the sequence held. It must not be in flight.
func (d *scheduler) remove(s *sequence) {
	d.leaveLine(s)
	d.endTrial(s)
	s.free()
	if d.sequences[s.seq.RequestId] == s {
		delete(d.sequences, s.seq.RequestId)
	}
	kept := d.order[:0]
	for _, o := range d.order {
		if o != s {
			kept = append(kept, o)
		}
	}
	d.order = kept
	d.stats.active(len(d.sequences))
	d.serve()
}

func (d *scheduler) cancel(c *pb.Cancel) {
	s := d.sequences[c.RequestId]
	if s == nil || s.ended {
		return
	}
	s.end = &pb.Terminal{FinishReason: c.Reason}
	d.finish(s)
}

// tick ends the sequences that are late.
func (d *scheduler) tick() {
	now := d.now()
	d.closing = slices.DeleteFunc(d.closing, isClosed)
	for _, s := range slices.Clone(d.order) { // ending one changes the order
		if !s.ended && !s.deadline.IsZero() && now.After(s.deadline) {
			s.end = s.late()
			d.finish(s)
		}
	}
}
