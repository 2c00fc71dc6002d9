package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// Engine drives a scheduler: its one goroutine takes in what happens, and gives
// workers what the scheduler decides.
type Engine struct {
	scheduler *scheduler
	inbox

	pulse    renewal.Pulse
	device   device.Failer         // nil: nothing that can be lost
	long     func(length int) bool // whether a sequence of so many ids is a long one; nil: none is
	slots    wire.FatesShape       // layers with experts, and slots, of a row
	fateRoom int                   // bytes that fates may have in a record
	workers  []*worker
	told     *Line
	ender    ender
}

// heartbeatEvery is how often deadlines are looked at.
const heartbeatEvery = 400 * time.Millisecond

// New returns an engine that has no sequences, and does not run.
func New(s Settings) *Engine {
	d := s.Deployment
	st := newStats(d, s.Presence, s.KV, s.Replica)
	workers := make([]*worker, s.Rows.Microbatches)
	for i := range workers {
		workers[i] = newWorker(s.Backbone, func(p *forward.Progress) Remote { return s.Remote(i, p) }, s.Tracer, st)
		workers[i].choose.Pool = d.Pool
	}
	e := newEngine(newScheduler(s.Rows.policy(d.Model), workers, time.Now, d.Logger, st), workers, s.Stopped)
	e.scheduler.chooser.batches, e.device, e.long, e.ender = d.Batches, s.Device, s.Backbone.Long, ender{d.Logger, s.Tasks}
	e.scheduler.drafts.most = s.Drafts
	// Scripts say which rows are computed, and what stamps make of rows depends on what steps beside them.
	e.scheduler.prefix.shared = s.SharePrefixes && d.Batches == nil && s.Directives == nil && s.KV.SharePrefixes()
	e.scheduler.directives, st.directives = s.Directives, s.Directives
	e.slots = wire.FatesShape{Layers: len(d.MoELayers()), Slots: d.Model.Spec.TopK}
	e.fateRoom = roomOfFates(d.Conn.MaxPayload())
	st.active(0)
	return e
}

func newEngine(d *scheduler, workers []*worker, stopped <-chan struct{}) *Engine {
	e := &Engine{
		scheduler: d, inbox: newInbox(len(workers), stopped), workers: workers, told: newLine(len(workers) * d.chooser.policy.MaxRows),
	}
	d.journal.progress = &e.pulse.Progress
	return e
}

// Pulse beats while the engine gets on.
func (e *Engine) Pulse() *renewal.Pulse { return &e.pulse }

// Workers compute its sequences.
func (e *Engine) Workers() (all []*renewal.Worker) {
	for _, w := range e.workers {
		all = append(all, &w.watched)
	}
	return all
}

// Line is what the engine tells of its sequences at any time.
func (e *Engine) Line() *Line { return e.told }

// Follow shows pages and sequences in metrics, until stop is called.
func (e *Engine) Follow() (stop func()) { return e.scheduler.stats.mirror() }

// SendTimes tells what layers took, and how many requests wait, until ctx ends.
func (e *Engine) SendTimes(ctx context.Context, d *deployment.Deployment, waiting func() int) {
	e.scheduler.stats.times.send(ctx, d, waiting)
}

// NewSequence makes a request that is to be claimed a sequence of this replica. hold is its
// delivery, and release is told how many ids it had when it is gone from here.
func (e *Engine) NewSequence(seq *pb.Sequence, hold *renewal.Hold, release func(ids int)) *Sequence {
	s := newSequence(seq)
	s.delivery, s.release, s.isLong, s.slots, s.fateRoom = hold, release, e.long, e.slots, e.fateRoom
	s.strange = func(token int32, why error) {
		e.scheduler.stats.metrics.Refused.Inc()
		e.scheduler.log.Warn("fates in a token log are passed over", "request", seq.RequestId, "token", token, "error", why)
	}
	return s
}

// Writing says what follows from what becomes of a sequence's log.
func (e *Engine) Writing(s *Sequence) tokenlog.WriterSettings {
	request := s.seq.RequestId
	return tokenlog.WriterSettings{
		Lost: func(w *tokenlog.Writer, err error) {
			e.ender.lost(s, err)
			e.tell(lostLog{request: request, writer: w})
		},
		Cut: func(w *tokenlog.Writer, why error) *pb.Terminal {
			go e.tell(lostLog{request: request, writer: w, full: why})
			return noRoom(why)
		},
		Finished: func() { e.ender.finished(s) },
		Room:     e.haveRoom,
	}
}

// Compute has all workers compute what they are given until ctx ends.
func (e *Engine) Compute(ctx context.Context) {
	var running sync.WaitGroup
	for _, w := range e.workers {
		running.Go(func() { w.run(ctx, e.finished) })
	}
	running.Wait()
}

// Run drives the engine until the context ends; then it hands over what it has. fail is told
// when nothing can be computed any more.
func (e *Engine) Run(ctx context.Context, fail func(error)) {
	d := e.scheduler
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	gone := e.deviceFailed()
	e.pulse.Begin()
	for {
		e.launch()
		for d.write() {
			e.launch()
		}
		e.tellLine()
		e.pulse.Progress.Tick()
		select {
		case <-ctx.Done():
			closing, open := d.leave()
			handOver(context.WithoutCancel(ctx), d.log, closing, open)
			return
		case s := <-e.admitted:
			d.add(s)
		case mb := <-e.finished:
			d.settle(mb)
			if d.machine.broken != nil {
				fail(d.machine.broken)
			}
		case <-gone:
			gone = nil // it is heard once
			d.machine.lost(e.device.Err(), len(d.own.byRequest))
			fail(d.machine.broken)
		case c := <-e.cancels:
			d.cancel(c)
		case l := <-e.lost:
			d.drop(l)
		case o := <-e.asks:
			o.answer <- d.own.holds(o.request)
		case <-e.room: // a log takes records again
		case <-e.due():
		case <-tick.C:
			d.tick()
		}
	}
}

// due is when the next microbatch may be chosen without anything having changed; nil: never.
func (e *Engine) due() <-chan time.Time {
	within := e.scheduler.chooser.askWithin
	if within == 0 {
		return nil
	}
	return time.After(within)
}

// deviceFailed is closed when the device is lost; nil where none can be.
func (e *Engine) deviceFailed() <-chan struct{} {
	if e.device == nil {
		return nil
	}
	return e.device.Failed()
}

// tellLine tells other goroutines how many sequences wait for pages or for their first step,
// and how much of prompts is to be computed.
func (e *Engine) tellLine() {
	d := e.scheduler
	d.stats.lined(d.seats.waiting())
	e.told.tell(int64(d.seats.line.Len()), d.own.unstepped(), d.own.unread())
	d.tellWait()
}

// launch fills idle workers with what is ready. Gosched then puts this goroutine behind the worker that it has just
// woken, so that the worker need not wait until another thread takes it.
func (e *Engine) launch() {
	launched := false
	for mb, w := e.scheduler.next(); mb != nil; mb, w = e.scheduler.next() {
		w.in <- mb
		launched = true
	}
	if launched {
		runtime.Gosched()
	}
}
