package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// world is what planners see of others: members, the lease, the bucket. It
// writes down what they do, and fails as it is told.
type world struct {
	mu      sync.Mutex
	events  []string
	changed chan struct{}
	members map[string]*pb.Member
	mute    map[string]bool // has not answered a call

	settings plan.Settings
	illegal  error // what the settings are instead
	plan     *planstore.Plan
	spoilt   bool // the plan is not legal
	faults   map[string]error

	epoch  uint64
	holder string
	lose   context.CancelFunc // takes the lease from its holder
	freed  signal
	heard  map[int]func(key string)
}

func newWorld() *world {
	return &world{
		changed: make(chan struct{}), members: map[string]*pb.Member{}, mute: map[string]bool{},
		settings: plan.DefaultSettings(), faults: map[string]error{}, heard: map[int]func(string){},
	}
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

// take is what has happened since the last time.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.events = nil }()
	return w.events
}

// change changes the members.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// tell lets the planners hear of a write.
func (w *world) tell(key string) {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.heard))
	w.mu.Unlock()
	for _, heard := range all {
		heard(key)
	}
}

// Answered implements Members.
func (w *world) Answered(service string) (those []*pb.Member, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = true
	for id, m := range w.members {
		if m.Service == service && w.mute[id] {
			all = false
		} else if m.Service == service {
			those = append(those, m)
		}
	}
	slices.SortFunc(those, func(a, b *pb.Member) int { return cmp.Compare(a.Id, b.Id) })
	return those, all
}

// Changed implements Members.
func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Newcomers implements Members: nobody's view has any here.
func (w *world) Newcomers() <-chan struct{} { return nil }

// Settled implements Members.
func (w *world) Settled() bool { return true }

func (w *world) fault(of string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[of]
}

// Read implements Plans.
func (w *world) Read(context.Context) (*planstore.Plan, error) {
	if err := w.fault("read"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spoilt {
		return &planstore.Plan{}, planstore.ErrIllegal
	}
	return w.plan, nil
}

// Write implements Plans.
func (w *world) Write(_ context.Context, head *pb.PlanHead, layers []*pb.LayerPlan, _ *planstore.Plan) error {
	if err := w.fault("write"); err != nil {
		return err
	}
	table, err := plan.NewTable(1, layers, testModel.MoELayers, testModel.Experts)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.plan, w.spoilt = &planstore.Plan{Head: head, Layers: layers, Table: table}, false
	w.mu.Unlock()
	w.say("writes, epoch %d: %s", head.WriterEpoch, head.Reason)
	for _, l := range layers {
		w.say("  layer %d:%s", l.Layer, functions(l))
	}
	w.tell("head")
	return nil
}

func functions(l *pb.LayerPlan) (text string) {
	for _, f := range l.Functions {
		text += fmt.Sprintf(" %v on %s", f.Experts, strings.Join(f.Hosts, "+"))
	}
	return text
}

// Settings implements Plans.
func (w *world) Settings(context.Context) (plan.Settings, error) {
	if err := w.fault("settings"); err != nil {
		return plan.Settings{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings, w.illegal
}

// FollowKeys implements Plans.
func (w *world) FollowKeys(heard func(string)) (stop func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.heard)
	for w.heard[n] != nil {
		n++
	}
	w.heard[n] = heard
	return func() { w.mu.Lock(); delete(w.heard, n); w.mu.Unlock() }, nil
}

// candidate is one planner's side of the world.
type candidate struct {
	*world
	id string
}

// SetCalling implements Caller.
func (c candidate) SetCalling(calling bool) {
	if calling {
		c.say("%s begins to call", c.id)
	} else {
		c.say("%s ends calling", c.id)
	}
}

// Call implements Caller.
func (c candidate) Call() { c.say("%s calls", c.id) }

// Add implements Caller.
func (c candidate) Add(name string, n float64) { c.say("%s counts %s %v", c.id, name, n) }

// logged is where a candidate logs.
type logged struct{ candidate }

// Write implements io.Writer.
func (c logged) Write(line []byte) (int, error) {
	c.say("%s logs %s", c.id, strings.TrimSpace(string(line)))
	return len(line), nil
}

// Hold implements Lease, as lease.Hold does: a lease that is lost is wanted again.
func (c candidate) Hold(ctx context.Context, fn func(context.Context, uint64) error) error {
	if err := c.fault("lease"); err != nil {
		return err
	}
	for {
		tenure, epoch, err := c.acquire(ctx)
		if err != nil {
			return err
		}
		err = fn(tenure, epoch)
		lost := errors.Is(context.Cause(tenure), lease.ErrLost)
		c.release(lost)
		if !lost || ctx.Err() != nil {
			return err
		}
		_ = pause.For(ctx, lease.TTL) // others are first
	}
}

func (c candidate) acquire(ctx context.Context) (context.Context, uint64, error) {
	for {
		freed := c.freed.wait()
		c.mu.Lock()
		if c.holder == "" && ctx.Err() == nil {
			tenure, cancel := context.WithCancelCause(ctx)
			c.holder, c.lose = c.id, func() { cancel(lease.ErrLost) }
			c.epoch++
			defer c.say("%s holds the lease", c.id)
			defer c.mu.Unlock()
			return tenure, c.epoch, nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-freed:
		}
	}
}

func (c candidate) release(lost bool) {
	c.mu.Lock()
	c.holder = ""
	c.lose()
	c.mu.Unlock()
	if lost {
		c.say("%s has lost the lease", c.id)
	} else {
		c.say("%s gives the lease back", c.id)
	}
	c.freed.fire()
}
