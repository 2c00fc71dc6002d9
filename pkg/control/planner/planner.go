// Package planner keeps the plan: the planner with the lease asks a
// policy what the plan should be whenever hosts, settings or the plan's bucket
// change, and writes what is new. It runs within another process and knows
// nothing of it.
//
//	           a scaler is ready            lease is ours
//	waiting ◀───────────────── contending ───────────────▶ planning
//	   │  no scaler is ready ▶    ▲  ▲      lease is lost     │ │
//	   └──────────────────────────┘  └────────────────────────┘ │
//	   ▲                     a scaler is ready                  │
//	   └────────────────────────────────────────────────────────┘
package planner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/alone"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Pauses of the planner.
const (
	// debounce lets members that come together get one plan together.
	debounce = 150 * time.Millisecond
	// retry is the pause before what failed is tried again.
	retry = 2 * time.Second
	// lookAgain is how often the planner looks though it has heard of nothing:
	// what is written while a connection is away is not heard.
	lookAgain = 10 * time.Second
	lastPause = 5 * time.Second
)

// Policy is a pure decision. Beside an error the plan in force stays.
type Policy func(plan.Known) (*plan.Decision, error)

// Settings are what code sets.
type Settings struct {
	Lease   Lease
	Members Members
	Caller  Caller
	Plans   Plans
	Groups  Groups
	Records Records
	Model   plan.Model
	// YieldTo is the service whose ready replicas plan in this one's place;
	// empty: none does.
	YieldTo string
	// Grouping is of functions while nobody has written settings; empty: as the
	// default ones say.
	Grouping plan.Grouping
	// Elastic, if set, plans in place of the policy that the settings name.
	Elastic Elastic
	Logger  *slog.Logger
}

// Elastic is a policy that goes by more than what is in Known.
type Elastic interface {
	// Begin forgets what was before: this planner plans from now on.
	Begin()
	// Hear hears what the policy goes by until ctx ends, and the tenure with it.
	Hear(ctx context.Context)
	// Plan is a Policy. Only one goroutine calls it, within a tenure.
	Plan(plan.Known) (*plan.Decision, error)
	// News is closed when Plan may decide otherwise than the last time.
	News() <-chan struct{}
	// Written hears which layers' plans were written.
	Written(layers []*plan.Layer)
}

// Members are the replicas that are here, as a members.View shows them.
type Members interface {
	Answered(service string) (those []*pb.Member, all bool)
	Changed() <-chan struct{}
	Newcomers() <-chan struct{}
	Synced() bool
	Snapshot() []*pb.Member
}

// Caller is the planner's own replica among the members, as a
// deployment.Presence is.
type Caller interface {
	// SetCalling makes each renewal a call that the members answer, or ends that.
	SetCalling(bool)
	// Call calls at once.
	Call()
	// Add counts.
	Add(name string, n float64)
}

// Plans is where the plan and its settings lie, as a planstore.Store keeps them.
type Plans interface {
	Read(context.Context) (planstore.State, error)
	FollowInto(context.Context, *planstore.View) error
	Write(ctx context.Context, old planstore.State, wanted []*pb.LayerPlan, by planstore.Writer) (now planstore.State, changed []int, err error)
	// Settings are the default ones if none are written.
	Settings(context.Context) (s plan.Settings, written bool, err error)
	// MendSettings writes settings over what nobody can have set.
	MendSettings(ctx context.Context, s plan.Settings) error
	FollowKeys(heard func(key string)) (stop func(), err error)
}

// Groups are the functions' consumer groups, as a deployment makes them.
type Groups interface {
	EnsureGroup(ctx context.Context, layer int, function string, kept bool) error
	// EnsureObjects makes the store of rows on their way, where it is missing.
	EnsureObjects(ctx context.Context) error
}

// Records are what replicas say of functions, as a functions.View shows them.
type Records interface {
	// Keys are those of each replica that there are some of.
	Keys() map[string][]string
	Clear(ctx context.Context, key string) error
}

// Planner is one candidate for the planner's lease.
type Planner struct {
	Settings
	settings followed
	// written fires when somebody writes legal settings that are new, or spoils those that were there.
	written signal
}

// New returns a planner that is not running.
func New(s Settings) *Planner { return &Planner{Settings: s} }

// Run contends for the lease while nobody plans in its place, and plans while
// it holds it, until ctx ends.
func (p *Planner) Run(ctx context.Context) {
	stop, err := p.Plans.FollowKeys(p.heard)
	if err != nil {
		p.Logger.Error("not planning", "error", err) // the connection is closed for good
		return
	}
	defer stop()
	var following sync.WaitGroup
	defer following.Wait()
	changed := p.settings.changed.wait()
	_ = p.readSettings(ctx) // what fails is tried again
	following.Go(func() { p.followSettings(ctx, changed) })
	var said pause.ErrorLog
	for pauses := pause.Between(debounce, lastPause); p.awaitTurn(ctx); {
		if err := p.contend(ctx, pauses); err != nil && ctx.Err() == nil {
			said.Error(p.Logger, "planner's lease; trying again", err)
			_ = pauses.Wait(ctx) // the loop sees the end of ctx
		}
	}
}

func (p *Planner) heard(key string) {
	if key == planstore.SettingsKey {
		p.settings.changed.fire()
	}
}

// contend returns when the lease was held, could not be had, or is another
// service's.
func (p *Planner) contend(ctx context.Context, pauses *pause.Growing) error {
	turn, end := p.turn(ctx)
	defer end()
	err := p.Lease.Hold(turn, func(ctx context.Context, by planstore.Writer) error {
		pauses.Reset() // for what comes after
		return p.hold(ctx, by)
	})
	if turn.Err() != nil {
		return nil
	}
	return err
}

// tenure is what a planner knows while it holds the lease.
type tenure struct {
	*Planner
	by   planstore.Writer
	view *planstore.View
	kept map[group]bool       // of plans in force; true: they are there
	gone map[string]time.Time // replicas whose records are left, since when
	// began are the settings at the tenure's beginning: a scaler's plan that does not say its own stays until they change.
	began plan.Settings
	store objects // of rows on their way
}

// hold plans anew whenever something changes, until ctx ends.
func (p *Planner) hold(ctx context.Context, by planstore.Writer) error {
	p.Caller.SetCalling(true)
	defer p.Caller.SetCalling(false)
	ctx, stop := context.WithCancel(ctx)
	t := &tenure{Planner: p, by: by, view: planstore.NewView(), kept: map[group]bool{}, gone: map[string]time.Time{}}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	tasks.Go(func() { p.callNewcomers(ctx) })
	if err := t.begin(ctx); err != nil {
		return err
	}
	tasks.Go(func() { _ = p.Plans.FollowInto(ctx, t.view) })
	if p.Elastic != nil {
		p.Elastic.Begin()
		tasks.Go(func() { p.Elastic.Hear(ctx) })
	}
	t.replanAlways(ctx)
	return nil
}

// begin looks at what there is.
func (t *tenure) begin(ctx context.Context) error {
	t.awaitAnswers(ctx)
	state, err := t.Plans.Read(ctx)
	if err != nil {
		return fmt.Errorf("reading the plan in force: %w", err)
	}
	for _, v := range state {
		t.view.Put(v)
	}
	for _, l := range state.Layers() { // what the planner before kept ends with its functions
		for g := range groupsKept(l.LayerPlan) {
			t.kept[g] = false
		}
	}
	return nil
}

func (t *tenure) replanAlways(ctx context.Context) {
	var said pause.ErrorLog
	for ctx.Err() == nil {
		changed, replanned, written, news, again := t.Members.Changed(), t.view.Changed(), t.written.wait(), t.news(), lookAgain
		if err := errors.Join(t.mendSettings(ctx), t.replan(ctx)); err != nil && ctx.Err() == nil {
			said.Error(t.Logger, "no new plan", err)
			again = retry
		}
		t.sweep(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
			continue
		case <-news:
			continue
		case <-replanned:
		case <-changed:
		case <-written:
		}
		_ = pause.For(ctx, debounce) // the loop sees the end of ctx
	}
}

// news is closed when the policy knows more than before; of one that goes by
// nothing else it never is.
func (p *Planner) news() <-chan struct{} {
	if p.Elastic == nil {
		return nil
	}
	return p.Elastic.News()
}

func (p *Planner) policy(s plan.Settings) Policy {
	if p.Elastic != nil {
		return p.Elastic.Plan
	}
	return alone.By(s.Policy)
}

// decide asks the policy. The plan of a scaler that is gone stays, and is only mended, unless
// it cannot be, or the settings are no longer those that it was written under.
func (t *tenure) decide(k plan.Known) (*plan.Decision, error) {
	if t.began.Policy == "" {
		t.began = k.Settings
	}
	return brownout.PlanBeside(k, func(k plan.Known) (*plan.Decision, error) {
		if t.Elastic == nil && alone.Stays(k, t.began) {
			if d, err := alone.Mend(k); err == nil {
				return d, nil
			}
		}
		return t.policy(k.Settings)(k)
	})
}

// replan writes the plan for the hosts that answer, where it is another one. While
// none does, as when the members' bucket is disturbed, the old one stays.
func (t *tenure) replan(ctx context.Context) error {
	state := t.view.State()
	known, err := t.known(ctx)
	if err != nil || len(known.Hosts) == 0 { // not even the planner's own host is seen yet
		return err
	}
	known.InForce = inForce(state, known.Settings)
	decision, err := t.decide(known)
	if err != nil {
		return fmt.Errorf("planning for %d hosts: %w", len(known.Hosts), err)
	}
	if err := t.keepGroups(ctx, decision.Layers); err != nil {
		return err
	}
	now, changed, err := t.Plans.Write(ctx, state, plan.Under(t.move(ctx, decision.Layers, state, known.Settings), t.shared()), t.by)
	for _, l := range changed { // the rest may be of a bucket that is gone
		t.view.Put(now[l])
	}
	t.tell(now, changed)
	if errors.Is(err, planstore.ErrConflict) {
		return nil // the next look sees the other's plan
	}
	return err
}

// tell lets the policy know which of its plans were written.
func (t *tenure) tell(now planstore.State, changed []int) {
	if t.Elastic == nil || len(changed) == 0 {
		return
	}
	var layers []*plan.Layer
	for _, l := range changed {
		layers = append(layers, now[l].Plan)
	}
	t.Elastic.Written(layers)
}

func (p *Planner) known(ctx context.Context) (plan.Known, error) {
	settings, err := p.wanted(ctx)
	those, _ := p.Members.Answered("expert")
	k := plan.Known{Model: p.Model, Settings: settings}
	k.Hosts, k.Model.ExpertBytes = hosts(those, p.Model)
	return k, err
}

// awaitTurn waits while another service plans, and reports whether to contend for
// the lease: not when ctx has ended.
func (p *Planner) awaitTurn(ctx context.Context) bool {
	p.awaitOther(ctx, false)
	return ctx.Err() == nil
}

// turn returns a context that ends when another service plans.
func (p *Planner) turn(ctx context.Context) (turn context.Context, end func()) {
	turn, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		p.awaitOther(turn, true)
		cancel()
	})
	return turn, func() { cancel(); watching.Wait() }
}

// awaitOther returns when another service plans, or none does, or ctx has ended.
func (p *Planner) awaitOther(ctx context.Context, plans bool) {
	for {
		changed := p.Members.Changed()
		if p.otherPlans() == plans {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// otherPlans reports whether a service is here that plans in this one's place. Its
// replica has answered a call: a copied record does not keep the planners away.
func (p *Planner) otherPlans() bool {
	if p.YieldTo == "" {
		return false
	}
	those, _ := p.Members.Answered(p.YieldTo)
	return slices.ContainsFunc(those, func(m *pb.Member) bool { return m.Ready && !m.Draining })
}
