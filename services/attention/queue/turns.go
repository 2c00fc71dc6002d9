package queue

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// turns lets sequences begin in fair order, as places get free.
type turns struct {
	places
	conn    *bus.Conn
	subject string // that sequences come by
	claimer *claimer
	settler *settler
	engine  Engine
	pages   Pages
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

// handBack leaves to others what waits.
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

// cancelled ends a request that has not begun.
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
