package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// turns lets sequences begin in fair order, as places get free.
type turns struct {
	places
	conn    *bus.Conn
	subject string // that sequences come by
	claimer *claimer
	settler *settler
	engine  Engine
	pages   *kvcache.Pool
	tasks   *sync.WaitGroup
	ctx     context.Context // ends when the replica stops
	prelude prelude
}

// run lets sequences begin until ctx ends. So few of them wait for pages at a time that who
// is small can pass who is large, and no more: in that line the order is not fair.
func (t *turns) run(ctx context.Context) {
	for t.slots.wait(ctx) && t.line.Await(ctx, kvcache.MaxPassed) {
		a := t.waiting.next(ctx)
		if a == nil {
			break
		}
		t.slots.take()
		t.line.Enter()
		t.tasks.Go(func() { t.admit(ctx, a) })
	}
	t.handBack()
}

func (t *turns) handBack() {
	for a := t.waiting.take(); a != nil; a = t.waiting.take() {
		t.settler.giveBack(a)
	}
}

// rebalance gives what waits here to siblings that have places, until ctx ends.
func (t *turns) rebalance(ctx context.Context) {
	tick := time.NewTicker(members.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n, pages := t.elsewhere()
			for _, a := range t.waiting.surplus(n, func(a *arrival) bool { return float64(t.pages.Need(edge.Positions(a.msg))) <= pages }) {
				t.settler.giveBack(a)
			}
		}
	}
}

// cancel ends a request that waits here.
func (t *turns) cancel(request string) {
	a := t.waiting.leave(request)
	if a == nil {
		t.prelude.cancel(request)
		return
	}
	t.tasks.Go(func() { t.cancelled(t.ctx, a) })
}

func (t *turns) cancelled(ctx context.Context, a *arrival) {
	err := t.settler.log.End(ctx, a.msg.RequestId, a.msg.Accept, &pb.Terminal{FinishReason: "cancelled"})
	t.settler.settle(ctx, a.hold, err)
}

// admit claims a sequence's log and hands it to the engine.
func (t *turns) admit(ctx context.Context, a *arrival) {
	defer t.line.Entered()
	if !t.prelude.await(ctx, a.msg) {
		t.slots.release()
		t.waiting.refund(a, 0)
		t.cancelled(t.ctx, a) //nolint:contextcheck // ctx may have ended; the request is to end all the same
		return
	}
	var seq *engine.Sequence
	err := t.conn.Try(t.subject, func() (err error) {
		seq, err = t.claimer.own(ctx, a)
		return err
	})
	if bus.IsPanic(err) {
		err = &refusedError{a.msg, internal, err}
	}
	if err == nil {
		if err = t.engine.Admit(ctx, seq); err == nil {
			return
		}
	}
	t.slots.release()
	t.waiting.refund(a, 0)
	t.settler.settle(ctx, a.hold, err)
}

// prelude is what sequences wait for whose turn it is. They can be cancelled meanwhile.
type prelude struct {
	before func(context.Context, *pb.Sequence) // nil: sequences wait for nothing

	mu    sync.Mutex
	stops map[string]context.CancelFunc
}

// await waits for what is to come before a sequence; false where that was cancelled.
func (w *prelude) await(ctx context.Context, s *pb.Sequence) bool {
	if w.before == nil {
		return true
	}
	own, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	w.stops[s.RequestId] = stop
	w.mu.Unlock()
	w.before(own, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stops, s.RequestId)
	return own.Err() == nil || ctx.Err() != nil
}

// cancel ends a sequence's wait.
func (w *prelude) cancel(request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.stops[request]; stop != nil {
		stop()
	}
}

// settler settles sequences that are not admitted.
type settler struct {
	log    *tokenlog.Log
	logger *slog.Logger
	kin    *kin
}

// settle tells the queue why a sequence was not admitted.
func (t *settler) settle(ctx context.Context, h *renewal.Hold, err error) {
	if errors.Is(err, errOurs) || errors.Is(err, errLapsed) {
		h.Drop() // it goes on under its first delivery, which keeps it for us, or with its next owner
		return
	}
	if err := h.End(t.unadmitted(ctx, err)); err != nil {
		t.logger.Debug("settling a sequence", "error", err)
	}
}

// admitRetry is the pause before a sequence whose admission failed comes again.
const admitRetry = 500 * time.Millisecond

// unadmitted decides what an error of admission means for the work: an accepted
// request ends in an answer or in an error that its producer sees, so it comes
// again as often as it takes, or its log is ended.
func (t *settler) unadmitted(ctx context.Context, err error) error {
	var foreign *foreignError
	if errors.As(err, &foreign) {
		err = t.kin.settle(ctx, foreign)
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		t.logger.Warn("sequence refused", "error", err)
		err = t.log.End(ctx, refused.seq.RequestId, refused.seq.Accept, engine.ErrorEnd(refused.code, refused.told()))
		if err == nil && refused.code == internal {
			return bus.GiveUp(refused.reason(), refused)
		}
	}
	switch {
	case err == nil, errors.Is(err, tokenlog.ErrFinished), errors.Is(err, tokenlog.ErrAccepted):
		return nil // or ended already: cancelled while it waited, or its acknowledgement was lost; or it has another sequence
	case errors.Is(err, tokenlog.ErrForeign):
		return bus.GiveUp(bus.Refused, err) // its id is another request's by now
	case errors.Is(err, context.Canceled), errors.Is(err, errUnreadable), errors.Is(err, errElsewhere), errors.Is(err, errTheirs):
		return err
	}
	t.logger.Warn("sequence not admitted; it will come again", "error", err)
	return bus.RetryAfter(admitRetry, err)
}

func (t *settler) giveBack(a *arrival) {
	if err := a.hold.Nak(0); err != nil {
		t.logger.Debug("giving a sequence back", "request", a.msg.RequestId, "error", err)
	}
}
