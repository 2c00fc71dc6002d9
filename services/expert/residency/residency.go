package residency

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
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

// Settings are what a host holds functions by.
type Settings struct {
	// Host is the host's id, by which plans name it.
	Host string
	// Layers is how many layers of the model have plans.
	Layers int
	Device device.Device
	// KeepAlive is how long functions stay in memory that nobody needs, if nobody else
	// needs their room; 0 is not at all.
	KeepAlive time.Duration
	// United has the numbers of united experts on the device; nil: the host has none.
	United United
	// Offload lets the host serve more experts than it holds: they come and go with the rows for
	// them, in the order of the device.
	Offload bool
	// Yield, if set, gives back room that nobody needs yet, so many bytes if it can, and says
	// whether it gave any. It returns at once, and calls nothing of the residency.
	Yield    func(bytes int64) bool
	Presence Presence
	Metrics  *telemetry.Metrics
	Logger   *slog.Logger
	// Unloadable, if set, is told of loads that fail for another reason than memory, once a reason.
	Unloadable func(error)
}

// United is the united experts that a host can load; a *united.Set is.
type United interface {
	// Number is what the device names a united expert by; false if there is none.
	Number(layer, way, group int) (number int, ok bool)
	// Has reports whether a way's are those of a bundle.
	Has(way int, bundle uint64) bool
}

// Presence is the host as the members see it; a *deployment.Presence is.
type Presence interface {
	// Add counts one of its figures up, Set sets one.
	Add(name string, n float64)
	Set(name string, v float64)
	// SetBudget says how many bytes of experts the host takes.
	SetBudget(bytes uint64)
}

// Network is how a host's functions reach the gates and the other hosts.
type Network interface {
	// Join begins to take a function's rows, so many messages at a time.
	Join(ctx context.Context, f *Function, inFlight int) (Group, error)
	// Remove removes a function's consumer group, which nobody is in any more.
	Remove(ctx context.Context, f *Function) error
	// Announce says what this host's functions of a layer do. It waits for nothing.
	Announce(r *pb.HostLayer)
	// Acknowledged is the plan of a layer that a gate uses.
	Acknowledged(gate string, layer int) uint64
	// Replicas are the hosts that have announced a function.
	Replicas(layer int, function string) []planstore.Replica
}

// Group is a consumer group that a host is in.
type Group interface {
	// Drain leaves it, and finishes what was taken from it.
	Drain(ctx context.Context) error
	// Waiting is how many messages were taken from it and not begun.
	Waiting() int
}

// Members are those that are seen; a *members.View is.
type Members interface{ Snapshot() []*pb.Member }

// The dispatches of one function that a host takes at a time at most. What it holds, the
// function's other replicas do not get; without others it need not ask for more so often.
const (
	inFlightShared = 4
	inFlightAlone  = 32
)

// common is what the table and the keepers work with.
type common struct {
	Settings
	memory  memory
	network Network
	ctx     context.Context // from Begin until End: loads and what is taken outlive whoever wants them
}
