package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Frame is how things stand at one time. Rows and replicas are by layer and expert:
// of expert e of layer l at l·experts + e.
type Frame struct {
	At time.Duration
	// Rows are the routed rows since the frame before.
	Rows []uint64
	// Wanted are the warm replicas of the plan, Warm those that hosts say they have
	// in the group, and Loaded those whose weights they hold.
	Wanted, Warm, Loaded []int
	// Held are the GB·s of experts that hosts have metered since the run began.
	Held float64
}

// Change is a plan of a layer that has come into force.
type Change struct {
	At      time.Duration
	Layer   int
	Version uint64
	Reason  string
	// More and Fewer count the experts that gained replicas and that lost some.
	More, Fewer int
	// Serving is when all gates used it and all its replicas were warm, or those of a
	// later one; 0: not in this run.
	Serving time.Duration
}

// Planned names a layer's plan.
type Planned struct {
	Layer   int
	Version uint64
}

// watcher looks at plans and hosts.
type watcher struct {
	*deployment.Deployment
	conn    *bus.Conn
	members *members.View
	states  *planstore.FunctionView
	steps   *recorder
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu      sync.Mutex
	began   time.Time // zero: nothing is kept yet
	plans   map[int]*plan.Layer
	all     map[Planned]*plan.Layer
	changes []Change

	frames []Frame
	views  []View
}

// watch begins to look on.
func watch(ctx context.Context, y *cluster.Cluster, steps *recorder) (*watcher, error) {
	n := y.Settings.Node
	r, err := n.Connect(ctx, "watcher")
	if err != nil {
		return nil, err
	}
	own, stop := context.WithCancel(ctx)
	w := &watcher{conn: r.Conn, steps: steps, stop: stop, plans: map[int]*plan.Layer{}, all: map[Planned]*plan.Layer{}}
	if w.Deployment, err = n.Deploy(ctx, r); err == nil {
		err = w.follow(own)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *watcher) follow(ctx context.Context) (err error) {
	if w.states, err = planstore.NewFunctionView(w.Functions, w.FunctionRules()); err != nil {
		return err
	}
	if w.members, err = w.NewPresence(deployment.NewID("watcher"), "watcher").Watch(ctx); err != nil {
		return err
	}
	w.tasks.Go(func() { w.states.Follow(ctx, nil, w.acknowledged) })
	w.tasks.Go(func() { _ = w.Plans.Follow(ctx, w.changed) }) // it fails without a bucket only
	return nil
}

func (w *watcher) close() {
	w.stop()
	w.tasks.Wait()
	w.conn.Close()
}

const (
	// poll is how often what is waited for is looked at.
	poll = 5 * time.Millisecond
	// hostsWithin bounds the wait for a plan with all hosts, which takes seconds on a crowded machine.
	hostsWithin = time.Minute
)

// awaitHosts returns when every gate uses a plan with so many hosts, or fails
// with ctx.
func (w *watcher) awaitHosts(ctx context.Context, hosts int) error {
	ctx, stop := context.WithTimeoutCause(ctx, hostsWithin, fmt.Errorf("there is none after %v; with a --keep-alive shorter than hosts take to start, experts go to zero on those that are first", hostsWithin))
	defer stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !w.planned(hosts) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a plan with %d hosts: %w", hosts, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

func (w *watcher) planned(hosts int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[string]bool{}
	for _, l := range w.plans {
		for _, f := range l.Functions {
			for _, p := range f.Placements {
				used[p.Host] = true
			}
		}
		if !w.inUse(int(l.Layer), l.Version) {
			return false
		}
	}
	return len(used) >= hosts && len(w.plans) == len(w.MoELayers())
}

// inUse reports whether every gate uses this version of a layer's plan, or a later one.
func (w *watcher) inUse(layer int, version uint64) bool {
	return w.states.UsedBy(members.OfService(w.members.Snapshot(), "gate"), layer, version)
}

// changed takes a layer's plan in.
func (w *watcher) changed(v planstore.Value) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.Plan == nil {
		return
	}
	before := w.plans[v.Layer]
	w.plans[v.Layer] = v.Plan
	w.all[Planned{v.Layer, v.Plan.Version}] = v.Plan
	if w.began.IsZero() || before == nil {
		return
	}
	c := Change{At: time.Since(w.began), Layer: v.Layer, Version: v.Plan.Version, Reason: v.Plan.Reason}
	a, b := w.warm(before), w.warm(v.Plan)
	for e := range a {
		if b[e] > a[e] {
			c.More++
		} else if b[e] < a[e] {
			c.Fewer++
		}
	}
	w.changes = append(w.changes, c)
}

// warm counts the hosts that a plan wants each expert warm on.
func (w *watcher) warm(l *plan.Layer) []int {
	n := make([]int, w.Model.Spec.Experts)
	for _, f := range l.Functions {
		for _, e := range f.Experts {
			n[e] += wantedWarm(f)
		}
	}
	return n
}

func wantedWarm(f *pb.Function) (n int) {
	for _, p := range f.Placements {
		if p.Want == pb.Want_WANT_WARM {
			n++
		}
	}
	return n
}

// acknowledged notes which plans serve by now.
func (w *watcher) acknowledged(planstore.FunctionChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.changes {
		if y := &w.changes[i]; y.Serving == 0 && w.serving(y.Layer, y.Version) {
			y.Serving = time.Since(w.began)
		}
	}
}

// serving reports whether gates use a version of a layer's plan, or a later one, and
// the newest one's replicas are warm.
func (w *watcher) serving(layer int, version uint64) bool {
	if !w.inUse(layer, version) {
		return false
	}
	for _, f := range w.plans[layer].Functions {
		warm := map[string]bool{}
		for _, r := range w.states.Replicas(layer, f.Id) {
			warm[r.Host] = r.Warm()
		}
		for _, p := range f.Placements {
			if p.Want == pb.Want_WANT_WARM && !warm[p.Host] {
				return false
			}
		}
	}
	return true
}

func (w *watcher) seen() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes)
}

func (w *watcher) seenPlans() map[Planned]*plan.Layer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.all)
}

func (w *watcher) begin(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = at
}

func (w *watcher) start() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began
}

// run takes a frame at each interval until ctx ends.
func (w *watcher) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		w.frames = append(w.frames, w.frame(time.Since(w.start())))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *watcher) frame(at time.Duration) Frame {
	experts := w.Model.Spec.Experts
	f := Frame{At: at}
	f.Rows, f.Held = w.steps.take()
	f.Wanted, f.Warm, f.Loaded = make([]int, len(f.Rows)), make([]int, len(f.Rows)), make([]int, len(f.Rows))
	w.mu.Lock()
	defer w.mu.Unlock()
	for layer, at := range w.steps.layers {
		if l := w.plans[layer]; l != nil {
			w.count(l, at*experts, &f)
		}
	}
	return f
}

// count adds a layer's replicas, whose experts begin at an index.
func (w *watcher) count(l *plan.Layer, first int, to *Frame) {
	for _, f := range l.Functions {
		warm, loaded := 0, 0
		for _, r := range w.states.Replicas(int(l.Layer), f.Id) {
			if r.Warm() {
				warm++
			}
			if r.Phase == pb.FunctionPhase_FUNCTION_PHASE_WARM {
				loaded++
			}
		}
		for _, e := range f.Experts {
			at := first + int(e)
			to.Wanted[at] += wantedWarm(f)
			to.Warm[at] += warm
			to.Loaded[at] += loaded
		}
	}
}

// paced says which part of paced results this machine had too late, and how many seconds loads stood still.
func (w *watcher) paced() (late, stood float64) {
	sum := map[string]float64{}
	for _, m := range members.OfService(w.members.Snapshot(), "expert") {
		for name, v := range m.Stats {
			sum[name] += v
		}
	}
	return sum["paced_computes_late_total"] / max(1, sum["paced_computes_total"]), sum["paced_load_stood_seconds_total"]
}
