package engine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
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
	running.Go(func() { e.scheduler.masks.run(ctx, e.followed) })
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
		case s := <-e.followed:
			d.followed(s)
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
	d.stats.presence.Set(members.InLine, float64(d.seats.waiting()))
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

// inbox is what happens, for the engine's goroutine to take in.
type inbox struct {
	admitted chan *Sequence
	finished chan *microbatch
	followed chan *Sequence // what may come next in them is known
	cancels  chan *pb.Cancel
	lost     chan lostLog
	asks     chan ownership
	room     chan struct{}
	stopped  <-chan struct{} // closed when nothing is taken in any more
}

func newInbox(workers int, stopped <-chan struct{}) inbox {
	return inbox{
		admitted: make(chan *Sequence), finished: make(chan *microbatch, workers), followed: make(chan *Sequence), cancels: make(chan *pb.Cancel, 64),
		lost: make(chan lostLog, 64), asks: make(chan ownership), room: make(chan struct{}, 1), stopped: stopped,
	}
}

// Admit hands a sequence over that was claimed. It fails when ctx ended before.
func (x *inbox) Admit(ctx context.Context, s *Sequence) error {
	select {
	case x.admitted <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends a request early, if the engine has it.
func (x *inbox) End(request, reason string) {
	if schemas.CheckRequestID(request) != nil {
		return
	}
	select {
	case x.cancels <- &pb.Cancel{RequestId: request, Reason: reason}:
	case <-x.stopped:
	}
}

// ownership asks whether a request is being worked on here.
type ownership struct {
	request string
	answer  chan<- bool
}

// Owns reports whether a request is being worked on here; false also when ctx ends.
func (x *inbox) Owns(ctx context.Context, request string) bool {
	answer := make(chan bool, 1)
	select {
	case x.asks <- ownership{request, answer}:
		return <-answer
	case <-ctx.Done():
		return false
	}
}

// lostLog says that a sequence's log takes no more of it.
type lostLog struct {
	request string
	writer  logWriter
	full    error // its end is queued, since there was no room; nil: it is not ours to write
}

// tell lets the engine know what became of a log.
func (x *inbox) tell(l lostLog) {
	select {
	case x.lost <- l:
	case <-x.stopped:
	}
}

// haveRoom wakes the engine: a sequence that was passed over may step again.
func (x *inbox) haveRoom() { pause.Wake(x.room) }

// Line is what the engine tells other goroutines of the sequences that it has, and what
// they tell of those that are about to come.
type Line struct {
	inLine    atomic.Int64  // sequences that wait for pages
	entering  atomic.Int64  // sequences that had their turn, and are not with the scheduler yet
	unread    atomic.Int64  // rows of prompts that are to be computed
	unstepped atomic.Int64  // sequences of which no step has had a row
	moved     chan struct{} // holds a signal after each change for the better
	fills     int64         // rows of prompts that fill all workers
}

func newLine(fills int) *Line { return &Line{moved: make(chan struct{}, 1), fills: int64(fills)} }

// Await waits until at most so many sequences wait for pages, or are about to;
// false when ctx ended before.
func (l *Line) Await(ctx context.Context, most int64) bool {
	for l.inLine.Load()+l.entering.Load() > most {
		select {
		case <-l.moved:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// Enter says that a sequence has its turn.
func (l *Line) Enter() { l.entering.Add(1) }

// Entered says that a sequence that had its turn is with the scheduler, or is not to be.
func (l *Line) Entered() {
	l.entering.Add(-1)
	pause.Wake(l.moved)
}

// Waits reports whether a sequence waits for pages.
func (l *Line) Waits() bool { return l.inLine.Load() > 0 }

// Occupied says that what was claimed here fills all workers.
func (l *Line) Occupied() bool { return l.entering.Load() > 0 || l.unread.Load() >= l.fills }

// Unstepped is how many sequences that had their turn wait for their first row in a step.
func (l *Line) Unstepped() int { return int(l.entering.Load() + l.unstepped.Load()) }

// tell is how many sequences wait for pages, and for their first step, and how much of
// prompts is to be computed.
func (l *Line) tell(inLine, unstepped, unread int64) {
	l.unread.Store(unread)
	l.unstepped.Store(unstepped)
	if l.inLine.Swap(inLine) > inLine {
		pause.Wake(l.moved)
	}
}

// owned are the sequences of this replica.
type owned struct {
	byRequest map[string]*Sequence
	order     []*Sequence // oldest served first
}

// remove takes a sequence out.
func (o *owned) remove(s *Sequence) {
	if o.byRequest[s.seq.RequestId] == s {
		delete(o.byRequest, s.seq.RequestId)
	}
	kept := o.order[:0]
	for _, other := range o.order {
		if other != s {
			kept = append(kept, other)
		}
	}
	o.order = kept
}

// holds reports whether a request is being worked on here.
func (o *owned) holds(request string) bool { return o.byRequest[request] != nil }

// rotate moves the chosen to the end of the order, so that all get their turn.
func (o *owned) rotate(mb *microbatch) {
	kept := o.order[:0]
	for _, s := range o.order {
		if s.flight != mb {
			kept = append(kept, s)
		}
	}
	for i := range mb.parts {
		kept = append(kept, mb.parts[i].s)
	}
	o.order = kept
}

// decoding is how many make a token with each step, and may.
func (o *owned) decoding() (n int) {
	for _, s := range o.order {
		if !s.ended && !s.doubtful && s.table != nil && s.decoding() && (s.flight != nil || !s.away && !s.writer.Full() && s.table.Positions() >= s.extent()) {
			n++
		}
	}
	return n
}

// unread is how many rows of prompts are to be computed.
func (o *owned) unread() (rows int64) {
	for _, s := range o.order {
		if !s.ended && !s.decoding() {
			rows += int64(s.pending() + s.unread())
		}
	}
	return rows
}

// unstepped is how many sequences have nothing computed, and no row in flight.
func (o *owned) unstepped() (n int64) {
	for _, s := range o.order {
		if !s.ended && s.flight == nil && s.done == 0 && !s.flow.IsCanary() {
			n++
		}
	}
	return n
}
