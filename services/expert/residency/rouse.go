package residency

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Roused is how rows found their function.
type Roused struct {
	Waited bool // for the experts
	Cold   bool // for a function that rows had found cold
	Stale  bool // they were computed for an earlier attempt while these waited

	// Missing are experts that were not in memory, of an offloaded function.
	Missing []uint32
	lent    []*device.Ticket
}

// Rouse makes a function warm that rows have come for, and waits while it is to
// become so. Rows that are not stale are under way from then on, until Done; without an
// error, nothing takes the experts away meanwhile. An error says that the function did not
// become warm before ctx ended, or will not.
func (r *Residency) Rouse(ctx context.Context, f *Function, d *pb.Dispatch, arrived time.Time) (a Roused, err error) {
	t := r.table
	t.Lock()
	defer t.Unlock()
	if f.offloaded {
		return t.lend(ctx, f, d, arrived)
	}
	since := time.Now()
	for f.want != nothing && f.state.Phase != isWarm {
		a.Waited = true
		t.rouse(f)
		f.waits++
		err := t.awaitWarm(ctx, f)
		if f.waits--; err != nil {
			return a, err
		}
		if f.want == nothing && f.state.Phase != isWarm {
			return a, fmt.Errorf("function %s was dropped before it was warm", f.spec.Id)
		}
	}
	if a.Cold = a.Waited && f.want == cold; a.Cold {
		t.coldWait += time.Since(since)
	}
	if a.Stale = f.stale(d, arrived); !a.Stale {
		f.begin()
	}
	return a, nil
}

// Done ends what Rouse began; with the end of rows that waited a cold start is over.
func (r *Residency) Done(f *Function, a Roused) {
	t := r.table
	f.busy.Add(-1)
	if !a.Waited && a.lent == nil {
		return
	}
	t.Lock()
	defer t.Unlock()
	t.giveUp(a.lent)
	if a.Waited {
		if f.start != nil {
			f.start.over = time.Now()
		}
	}
}

// Named returns a function that is warm here, or that is to become so from now on: one of the
// plan's for this host, or one that is borrowed from others (ErrDeclined).
func (r *Residency) Named(layer int, id string) (f *Function, warm bool, err error) {
	r.table.Lock()
	defer r.table.Unlock()
	return r.table.named(layer, id)
}

// awaitWarm waits for a function's experts, without the lock meanwhile.
func (t *table) awaitWarm(ctx context.Context, f *Function) error {
	warmed := f.warmed
	t.Unlock()
	defer t.Lock()
	select {
	case <-warmed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("function %s is not warm: %w", f.spec.Id, ctx.Err())
	}
}

// rouse lets a cold function become warm, and the loads pass others of one that
// becomes so already.
func (t *table) rouse(f *Function) {
	if f.offloaded {
		return
	}
	t.demand(f)
	if f.want != cold || f.roused {
		return
	}
	f.roused, f.priority = true, t.plans.adopted
	f.start = newColdStart()
	t.coldStarts++
	t.Metrics.Hosts.ColdStarts.Inc()
	t.kick(f)
}

// demand says that rows wait for a function's loads.
func (t *table) demand(f *Function) {
	if f.demanded {
		return
	}
	f.demanded = true
	f.eachExpert(func(id forward.ExpertID) {
		if t.Device.State(id).Phase == device.Loading { // this ticket is one more
			t.Device.Load(t.ctx, id, f.urgency()).Release() //nolint:contextcheck,nolintlint // what others wait for
		}
	})
}

// stale reports whether rows need not be computed: they were, while they waited for the cold
// start that is the last.
func (f *Function) stale(d *pb.Dispatch, arrived time.Time) bool {
	if f.start == nil {
		return false
	}
	if f.start.past(arrived) {
		f.start = nil
		return false
	}
	return f.start.repeats(d)
}
