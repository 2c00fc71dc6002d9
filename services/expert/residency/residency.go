package residency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// retireEvery is how often it is looked whether functions can go.
const retireEvery = time.Second

// Residency is the functions of one host. It is safe for concurrent use.
type Residency struct {
	common  *common
	table   *table
	keepers sync.WaitGroup
	stop    context.CancelFunc
}

// New returns a residency without functions.
func New(s Settings) *Residency {
	c := &common{Settings: s, memory: memory{s.Device}}
	r := &Residency{common: c, table: newTable(c), stop: func() {}}
	r.table.start = func(f *Function) {
		r.keepers.Go(keeper{common: c, table: r.table, f: f}.run)
	}
	return r
}

// Begin says how functions reach others, and that loads and joining may go on until ctx ends,
// or End. It comes before all that wants something of functions.
func (r *Residency) Begin(ctx context.Context, n Network) {
	r.common.network = n
	r.common.ctx, r.stop = context.WithCancel(ctx)
}

// Adopt follows the newest plan of a layer. It waits for nothing.
func (r *Residency) Adopt(l *plan.Layer) {
	r.table.Lock()
	defer r.table.Unlock()
	r.table.adopt(l)
}

// Run lets functions go that no gate sends to any more, and those that have rested for
// long, until ctx ends.
func (r *Residency) Run(ctx context.Context, all Members) {
	tick := time.NewTicker(retireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.look(all.Snapshot(), time.Now())
		}
	}
}

func (r *Residency) look(all []*pb.Member, now time.Time) {
	r.table.Lock()
	defer r.table.Unlock()
	r.table.dropRetired(all)
	r.table.expire(now)
}

// Serving is closed when the host has begun to serve what the plans want of it.
func (r *Residency) Serving() <-chan struct{} { return r.table.serving }

// RestNoMore ends the rest of what rests, and lets nothing rest from then on: the host leaves.
func (r *Residency) RestNoMore() {
	r.table.Lock()
	defer r.table.Unlock()
	r.table.leaving = true
	r.table.expire(time.Now())
}

// End ends all that goes on by itself. Functions that take rows go on taking them.
func (r *Residency) End() {
	r.table.Lock()
	r.table.stopped = true
	r.table.Unlock()
	r.stop()
	r.keepers.Wait()
}

// Free finishes what functions have taken, and frees their experts. It comes after End, and
// when Named is called no more.
func (r *Residency) Free(ctx context.Context) error {
	var errs []error
	for _, f := range r.table.functions { // nobody else is left who changes them
		if f.receiving != nil {
			errs = append(errs, f.receiving.Drain(ctx))
		}
		f.release(r.common.Device)
	}
	return errors.Join(errs...)
}
