// Package planner keeps the plan: whoever holds the planner's lease asks a
// policy what the plan should be whenever the hosts change, and writes what is
// new. It runs within another process and knows nothing of it.
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
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Pauses of the planner: members that come together get one plan together.
const (
	settle    = 150 * time.Millisecond
	replanAll = 2 * time.Second
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
	Policy  Policy
	Model   plan.Model
	Wanted  plan.Settings
	// ModelName is the model's name in subjects.
	ModelName string
	Logger    *slog.Logger
}

// Members are the replicas that are here, as a members.View shows them.
type Members interface {
	Answered(service string) (those []*pb.Member, all bool)
	Changed() <-chan struct{}
	Newcomers() <-chan struct{}
	Settled() bool
}

// Caller makes the members answer, as a deployment.Presence does.
type Caller interface {
	// SetCalling makes each renewal a call, or ends that.
	SetCalling(bool)
	// Call calls at once.
	Call()
}

// Plans is where the plan lies, as a planstore.Store keeps it.
type Plans interface {
	Read(context.Context) (*planstore.Plan, error)
	Write(ctx context.Context, head *pb.PlanHead, layers []*pb.LayerPlan, old *planstore.Plan) error
}

// Planner is one candidate for the planner's lease.
type Planner struct{ Settings }

// New returns a planner that is not running.
func New(s Settings) *Planner { return &Planner{s} }

// Run contends for the lease, and plans while it holds it, until ctx ends.
func (p *Planner) Run(ctx context.Context) {
	var said telemetry.Unrepeated
	for wait := settle; ctx.Err() == nil; wait = min(2*wait, lastPause) {
		err := p.Lease.Hold(ctx, func(ctx context.Context, epoch uint64) error {
			wait = settle // for what comes after
			return p.hold(ctx, epoch)
		})
		if err != nil && ctx.Err() == nil {
			said.Error(p.Logger, "planner's lease; trying again", err)
			pause(ctx, wait)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hold plans anew whenever the hosts change.
func (p *Planner) hold(ctx context.Context, epoch uint64) error {
	p.Caller.SetCalling(true)
	defer p.Caller.SetCalling(false)
	var calling sync.WaitGroup
	defer calling.Wait()
	calling.Go(func() { p.callNewcomers(ctx) })
	p.muster(ctx)
	var said telemetry.Unrepeated
	for {
		changed := p.Members.Changed()
		if err := p.replan(ctx, epoch); err != nil && ctx.Err() == nil {
			said.Error(p.Logger, "no new plan", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			pause(ctx, settle)
		case <-time.After(replanAll):
		}
	}
}

// replan writes the plan for the hosts that answer, if it is another one. While
// none does, as when the members' bucket is disturbed, the old one stays.
func (p *Planner) replan(ctx context.Context, epoch uint64) error {
	those, _ := p.Members.Answered("expert")
	known := plan.Known{Model: p.Model, Settings: p.Wanted, Hosts: hosts(those)}
	if len(known.Hosts) == 0 {
		return nil // not even the planner's own host is seen yet
	}
	old, err := p.Plans.Read(ctx)
	if err != nil && !errors.Is(err, planstore.ErrIllegal) {
		return fmt.Errorf("reading the plan in force: %w", err)
	}
	if err == nil && old != nil {
		known.InForce = old.Layers
	}
	decision, err := p.Policy(known)
	if err != nil {
		return fmt.Errorf("planning for %d hosts: %w", len(known.Hosts), err)
	}
	if known.InForce != nil && plan.Same(known.InForce, decision.Layers) {
		return nil
	}
	return p.write(ctx, epoch, decision, old)
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
