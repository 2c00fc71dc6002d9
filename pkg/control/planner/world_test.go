package planner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
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
	written  bool  // the settings are not the default ones
	illegal  error // what the settings are instead
	plan     planstore.State
	view     *planstore.View // the holder's
	faults   map[string]error

	revision uint64
	records  map[string][]string // of each replica, its keys

	epoch  uint64
	holder string
	lose   context.CancelFunc // takes the lease from its holder
	freed  signal
	news   signal
	turn   int // how many news there were
	heard  map[int]func(key string)
}

func newWorld() *world {
	return &world{
		changed: make(chan struct{}), members: map[string]*pb.Member{}, mute: map[string]bool{},
		settings: plan.DefaultSettings(), faults: map[string]error{}, heard: map[int]func(string){}, plan: planstore.State{}, records: map[string][]string{},
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

// Synced implements Members.
func (w *world) Synced() bool { return true }

func (w *world) fault(of string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[of]
}

// Snapshot implements Members.
func (w *world) Snapshot() (all []*pb.Member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.members))
}

// Read implements Plans.
func (w *world) Read(context.Context) (planstore.State, error) {
	if err := w.fault("read"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.plan), nil
}

// FollowInto implements Plans.
func (w *world) FollowInto(ctx context.Context, v *planstore.View) error {
	w.mu.Lock()
	w.view = v
	w.mu.Unlock()
	<-ctx.Done()
	return nil
}

// spoil puts something else in the place of each layer's plan.
func (w *world) spoil(raw *pb.LayerPlan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan = planstore.State{}
	for _, l := range testModel.MoELayers {
		w.revision++
		w.plan[l] = planstore.Value{Layer: l, Raw: raw, Revision: w.revision}
		if w.view != nil {
			w.view.Put(w.plan[l])
		}
	}
}

// Write implements Plans.
func (w *world) Write(_ context.Context, old planstore.State, wanted []*pb.LayerPlan, by planstore.Writer) (planstore.State, []int, error) {
	if err := w.fault("write"); err != nil {
		return old, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, changed := maps.Clone(old), []int(nil)
	for _, want := range wanted {
		l := int(want.Layer)
		if there := old[l].Plan; there != nil && plan.Stands(there.LayerPlan, want) {
			continue
		}
		if len(changed) == 0 {
			w.events = append(w.events, fmt.Sprintf("writes, epoch %d: %s", by.Epoch, want.Reason))
		}
		checked, err := plan.Rules{MoELayers: testModel.MoELayers, Experts: testModel.Experts}.Check(want)
		if err != nil {
			return now, changed, err
		}
		w.revision++
		now[l] = planstore.Value{Layer: l, Plan: checked, Raw: want, Revision: w.revision}
		w.events = append(w.events, fmt.Sprintf("  layer %d:%s", l, functions(want)))
		changed = append(changed, l)
	}
	w.plan = now
	return now, changed, nil
}

// EnsureObjects implements Groups.
func (w *world) EnsureObjects(context.Context) error {
	w.say("the store of rows")
	return w.fault("objects")
}

// EnsureGroup implements Groups.
func (w *world) EnsureGroup(_ context.Context, layer int, function string, kept bool) error {
	w.say("group of function %s of layer %d kept: %v", function, layer, kept)
	return nil
}

// Keys implements Records.
func (w *world) Keys() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.records)
}

// Clear implements Records.
func (w *world) Clear(_ context.Context, key string) error {
	w.say("clears %s", key)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.records, func(_ string, keys []string) bool { return slices.Contains(keys, key) })
	return nil
}

func functions(l *pb.LayerPlan) (text string) {
	for _, f := range l.Functions {
		var on []string
		for _, p := range f.Placements {
			on = append(on, p.Host)
		}
		text += fmt.Sprintf(" %v on %s", f.Experts, strings.Join(on, "+"))
	}
	return text
}

// Settings implements Plans.
func (w *world) Settings(context.Context) (s plan.Settings, written bool, err error) {
	if err := w.fault("settings"); err != nil {
		return plan.Settings{}, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings, w.written, w.illegal
}

// MendSettings implements Plans.
func (w *world) MendSettings(_ context.Context, s plan.Settings) error {
	w.say("writes settings %s %s %d again", s.Policy, s.Grouping, s.Replicas)
	w.mu.Lock()
	w.settings, w.illegal = s, nil
	w.mu.Unlock()
	w.tell(planstore.SettingsKey)
	return nil
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
