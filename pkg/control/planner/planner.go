// Package planner keeps the plan: whoever holds the planner's lease asks a
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
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/process/pause"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Pauses of the planner.
const (
	// settle lets members that come together get one plan together.
	settle = 150 * time.Millisecond
	// retry is the pause before what failed is tried again.
	retry = 2 * time.Second
	// lookAgain is how often the planner looks though it has heard of nothing:
	// what is written while a connection is away is not heard.
	lookAgain = 10 * time.Second
	lastPause = 5 * time.Second
)

// Policy is a pure decision. Beside an error the plan in force stays.
type Policy func(plan.Known) (*plan.Decision, error)

// policies are those that settings may name.
var policies = map[string]Policy{plan.Static: static.Plan}

// Settings are what code sets.
type Settings struct {
	Lease   Lease
	Members Members
	Caller  Caller
	Plans   Plans
	Model   plan.Model
	// ModelName is the model's name in subjects.
	ModelName string
	// YieldTo is the service whose ready replicas plan in this one's place;
	// empty: none does.
	YieldTo string
	Logger  *slog.Logger
}

// Members are the replicas that are here, as a members.View shows them.
type Members interface {
	Answered(service string) (those []*pb.Member, all bool)
	Changed() <-chan struct{}
	Newcomers() <-chan struct{}
	Settled() bool
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
	Read(context.Context) (*planstore.Plan, error)
	Write(ctx context.Context, head *pb.PlanHead, layers []*pb.LayerPlan, old *planstore.Plan) error
	Settings(context.Context) (plan.Settings, error)
	FollowKeys(heard func(key string)) (stop func(), err error)
}

// Planner is one candidate for the planner's lease.
type Planner struct {
	Settings
	settings followed
	// written fires when somebody writes a plan, or legal settings that are new.
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
	var said telemetry.Unrepeated
	for pauses := pause.Between(settle, lastPause); p.awaitTurn(ctx); {
		if err := p.contend(ctx, pauses); err != nil && ctx.Err() == nil {
			said.Error(p.Logger, "planner's lease; trying again", err)
			_ = pauses.Wait(ctx) // the loop sees the end of ctx
		}
	}
}

// heard takes note of a write to the plan's bucket.
func (p *Planner) heard(key string) {
	if key == planstore.SettingsKey {
		p.settings.changed.fire()
	} else {
		p.written.fire()
	}
}

// contend returns when the lease was held, could not be had, or is another
// service's.
func (p *Planner) contend(ctx context.Context, pauses *pause.Growing) error {
	turn, end := p.turn(ctx)
	defer end()
	err := p.Lease.Hold(turn, func(ctx context.Context, epoch uint64) error {
		pauses.Reset() // for what comes after
		p.hold(ctx, epoch)
		return nil
	})
	if turn.Err() != nil {
		return nil
	}
	return err
}

// hold plans anew whenever something changes, until ctx ends.
func (p *Planner) hold(ctx context.Context, epoch uint64) {
	p.Caller.SetCalling(true)
	defer p.Caller.SetCalling(false)
	var calling sync.WaitGroup
	defer calling.Wait()
	calling.Go(func() { p.callNewcomers(ctx) })
	p.muster(ctx)
	var said telemetry.Unrepeated
	for ctx.Err() == nil {
		changed, written, again := p.Members.Changed(), p.written.wait(), lookAgain
		if err := p.replan(ctx, epoch); err != nil && ctx.Err() == nil {
			said.Error(p.Logger, "no new plan", err)
			again = retry
		}
		select {
		case <-ctx.Done():
		case <-changed:
			_ = pause.For(ctx, settle) // the loop sees the end of ctx
		case <-written:
			_ = pause.For(ctx, settle) // as above; a plan is several keys
		case <-time.After(again):
		}
	}
}

// replan writes the plan for the hosts that answer, if it is another one. While
// none does, as when the members' bucket is disturbed, the old one stays.
func (p *Planner) replan(ctx context.Context, epoch uint64) error {
	known, err := p.known(ctx)
	if err != nil || len(known.Hosts) == 0 { // not even the planner's own host is seen yet
		return err
	}
	old, err := p.Plans.Read(ctx)
	if err != nil && !errors.Is(err, planstore.ErrIllegal) {
		return fmt.Errorf("reading the plan in force: %w", err)
	}
	if err == nil && old != nil {
		known.InForce = old.Layers
	}
	decision, err := policies[known.Settings.Policy](known)
	if err != nil {
		return fmt.Errorf("planning for %d hosts: %w", len(known.Hosts), err)
	}
	if known.InForce != nil && plan.Same(known.InForce, decision.Layers) {
		return nil
	}
	return p.write(ctx, epoch, decision, old)
}

func (p *Planner) known(ctx context.Context) (plan.Known, error) {
	settings, err := p.wanted(ctx)
	those, _ := p.Members.Answered("expert")
	return plan.Known{Model: p.Model, Settings: settings, Hosts: hosts(those)}, err
}

func (p *Planner) write(ctx context.Context, epoch uint64, d *plan.Decision, old *planstore.Plan) error {
	head := &pb.PlanHead{Model: p.ModelName, WriterEpoch: epoch, Reason: d.Reason}
	err := p.Plans.Write(ctx, head, d.Layers, old)
	if errors.Is(err, planstore.ErrConflict) {
		return nil // the next look sees the other's plan
	}
	return err
}

// hosts are the members that may be given experts.
func hosts(all []*pb.Member) (out []plan.Host) {
	for _, m := range all {
		if !m.Draining {
			out = append(out, plan.Host{ID: m.Id, Budget: m.MemoryBudgetBytes, Refused: m.Refused})
		}
	}
	return out
}
