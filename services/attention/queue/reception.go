package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// reception lets sequences that were pulled wait, or settles them.
type reception struct {
	conn     *bus.Conn
	log      *tokenlog.Log
	keeper   *renewal.Keeper
	siblings *members.Siblings
	checks   *checks
	capacity *capacity
	settler  *settler
	waiting  *waiting
	tasks    *sync.WaitGroup
}

// receive lets a sequence that was pulled wait for its turn; false: it is none. What takes
// questions to others is found out beside what was pulled with it.
func (r *reception) receive(ctx context.Context, d *bus.Delivery) (readable bool) {
	a := &arrival{
		hold: r.keeper.Keep(d), bytes: len(d.Data), delivered: d.Delivered, place: d.Sequence, stored: d.Timestamp, away: r.conn.Gap(),
	}
	err := r.conn.Try(d.Subject, func() error { return r.checks.read(d, a) })
	if bus.IsPanic(err) && a.msg != nil {
		err = &refusedError{a.msg, internal, err}
	}
	switch {
	case err != nil:
		r.tasks.Go(func() { r.turnAway(ctx, a, err) })
	case d.Delivered == 1 && r.capacity.fits(a.msg):
		r.waiting.join(a)
	default:
		r.tasks.Go(func() { r.lookInto(ctx, a) })
	}
	return !errors.Is(err, errUnreadable)
}

// lookInto lets a sequence wait that may have begun, or that may be too large here.
func (r *reception) lookInto(ctx context.Context, a *arrival) {
	err := r.leave(a)
	if err == nil {
		err = r.capacity.check(ctx, a.msg, a.delivered)
	}
	if err == nil && a.delivered > 1 {
		a.begun, err = r.log.Begun(ctx, a.msg.RequestId)
	}
	if err != nil {
		r.turnAway(ctx, a, err)
		return
	}
	r.waiting.join(a)
}

// turnAway settles a sequence that does not wait here.
func (r *reception) turnAway(ctx context.Context, a *arrival, why error) {
	r.waiting.pass()
	r.settler.settle(ctx, a.hold, why)
}

// maxLeft is from how many deliveries on a sequence is left to nobody, whatever is told.
const maxLeft = 32

// leave leaves a sequence that came again to the sibling that has it: claiming it would
// have all of it computed once more.
func (r *reception) leave(a *arrival) error {
	if a.delivered == 1 || a.delivered > maxLeft {
		return nil
	}
	if after := r.siblings.Leave(a.place, time.Now()); after > 0 {
		return bus.RetryAfter(after, errTheirs)
	}
	return nil
}
