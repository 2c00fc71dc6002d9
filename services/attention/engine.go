package attention

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/notify"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// engine drives a scheduler: its one goroutine takes in what happens, and gives
// workers what the scheduler decides.
type engine struct {
	*scheduler

	log     *slog.Logger
	pulse   pulse
	fail    func(error)   // ends run
	device  device.Failer // nil: nothing that can be lost
	keeper  *keeper
	workers []*worker

	admitted chan *sequence
	finished chan *microbatch
	cancels  chan *pb.Cancel
	lost     chan lostLog
	asks     chan ownership
	room     chan struct{}

	// How many sequences wait for pages, and how many are about to; moved holds a
	// signal after each change for the better.
	inLine, entering atomic.Int64
	moved            chan struct{}
	unread           atomic.Int64 // rows of prompts that are to be computed
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
		scheduler: newScheduler(policy, workers, time.Now, log, st), log: log, workers: workers,
		admitted: make(chan *sequence), finished: make(chan *microbatch, len(workers)),
		cancels: make(chan *pb.Cancel, 64), lost: make(chan lostLog, 64), asks: make(chan ownership), room: make(chan struct{}, 1),
		moved: make(chan struct{}, 1),
	}
	e.progress = &e.pulse.progress
	e.keeper = newKeeper(log, &e.pulse, workers)
	return e
}

// run drives the engine until the context ends; then it hands over what it has.
func (e *engine) run(ctx context.Context) {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	gone := e.deviceFailed()
	e.pulse.begin()
	for {
		e.launch()
		e.tellLine()
		e.pulse.progress.Tick()
		select {
		case <-ctx.Done():
			e.handOver(context.WithoutCancel(ctx))
			return
		case s := <-e.admitted:
			e.add(s)
		case mb := <-e.finished:
			e.settle(mb)
			if e.broken != nil {
				e.fail(e.broken)
			}
		case <-gone:
			gone = nil // it is heard once
			e.deviceLost(e.device.Err())
			e.fail(e.broken)
		case c := <-e.cancels:
			e.cancel(c)
		case l := <-e.lost:
			e.drop(l)
		case o := <-e.asks:
			o.answer <- e.holds(o.request)
		case <-e.room: // a log takes records again
		case <-e.due():
		case <-tick.C:
			e.tick()
		}
	}
}

// due is when the next microbatch may be chosen without anything having changed; nil: never.
func (e *engine) due() <-chan time.Time {
	if e.again == 0 {
		return nil
	}
	return time.After(e.again)
}

// deviceFailed is closed when the device is lost; nil where none can be.
func (e *engine) deviceFailed() <-chan struct{} {
	if e.device == nil {
		return nil
	}
	return e.device.Failed()
}

// launch fills idle workers with what is ready.
func (e *engine) launch() {
	for mb, w := e.next(); mb != nil; mb, w = e.next() {
		w.in <- mb
	}
}

// haveRoom wakes the engine: a sequence that was passed over may step again.
func (e *engine) haveRoom() { notify.Send(e.room) }
