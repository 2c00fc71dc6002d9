package expert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Pauses of the planner: members that come together get one plan together.
const (
	settle    = 150 * time.Millisecond
	replanAll = 2 * time.Second
	lastPause = 5 * time.Second
	// musterPoll is how often the planner looks whether all have answered, and
	// callPause the least time between two calls for newcomers.
	musterPoll = 2 * time.Millisecond
	callPause  = 100 * time.Millisecond
)

// keepPlan contends for the planner's lease, and plans while it holds it,
// until ctx ends.
func (s *Service) keepPlan(ctx context.Context) {
	var said news
	for wait := settle; ctx.Err() == nil; wait = min(2*wait, lastPause) {
		err := lease.Hold(ctx, s.d.Leases, "planner", s.id, lease.Options{}, func(ctx context.Context, held *lease.Held) error {
			wait = settle // for what comes after
			return s.planWhileHeld(ctx, held)
		})
		if err != nil && ctx.Err() == nil {
			said.error(s.d.Logger, "planner's lease; trying again", err)
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

// planWhileHeld plans anew whenever the hosts change.
func (s *Service) planWhileHeld(ctx context.Context, held *lease.Held) error {
	s.presence.SetCalling(true)
	defer s.presence.SetCalling(false)
	var calling sync.WaitGroup
	defer calling.Wait()
	calling.Go(func() { s.callNewcomers(ctx) })
	s.muster(ctx)
	var said news
	for {
		changed := s.view.Changed()
		if err := s.replan(ctx, held.Epoch()); err != nil && ctx.Err() == nil {
			said.error(s.d.Logger, "no new plan", err)
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

// callNewcomers lets those answer soon who are heard for the first time.
func (s *Service) callNewcomers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.view.Newcomers():
			s.presence.Call()
			pause(ctx, callPause)
		}
	}
}

// muster waits until the first plan would leave out nobody who is here: until
// all hosts that were heard have answered, and all have been heard whom the
// plan in force names. Both take one renewal at most.
func (s *Service) muster(ctx context.Context) {
	old, _ := s.d.Plans.Read(ctx) // what is not legal names nobody
	tick := time.NewTicker(musterPoll)
	defer tick.Stop()
	for limit := time.Now().Add(members.Hearing); time.Now().Before(limit); {
		those, all := s.view.Answered("expert")
		if len(those) > 0 && all && (s.view.Settled() || present(old, those)) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// present says whether all hosts of a plan are among the members.
func present(p *planstore.Plan, all []*pb.Member) bool {
	if p == nil || p.Table == nil {
		return true
	}
	hosts := p.Table.Hosts()
	for _, m := range all {
		delete(hosts, m.Id)
	}
	return len(hosts) == 0
}

// replan writes the plan for the hosts that answer, if it is another one. While
// none does, as when the members' bucket is disturbed, the old one stays.
func (s *Service) replan(ctx context.Context, epoch uint64) error {
	those, _ := s.view.Answered("expert")
	hosts := planHosts(those, s.expertBytes)
	if len(hosts) == 0 {
		return nil // not even this one is seen yet
	}
	layers, err := s.static().Plan(hosts)
	if err != nil {
		return fmt.Errorf("planning for %s: %w", names(hosts), err)
	}
	old, err := s.d.Plans.Read(ctx)
	if err != nil && !errors.Is(err, planstore.ErrIllegal) {
		return err
	}
	if err == nil && old != nil && plan.Same(old.Layers, layers) {
		return nil
	}
	head := &pb.PlanHead{Model: s.d.Subjects.Model, WriterEpoch: epoch, Reason: "static, round robin over " + names(hosts)}
	err = s.d.Plans.Write(ctx, head, layers, old)
	if errors.Is(err, planstore.ErrConflict) {
		return nil // the next look sees the other's plan
	}
	return err
}

func (s *Service) static() plan.Static {
	return plan.Static{
		MoELayers: s.d.MoELayers(), Experts: s.d.Model.Spec.Experts, ExpertBytes: s.expertBytes,
		Grouping: s.config.Grouping, Replicas: s.config.Replicas,
	}
}

// planHosts are the hosts that may be given experts of so many bytes.
func planHosts(all []*pb.Member, expertBytes uint64) (hosts []plan.Host) {
	for _, m := range members.OfService(all, "expert") {
		if budget, some := budgetOf(m, expertBytes); some && !m.Draining {
			hosts = append(hosts, plan.Host{ID: m.Id, Budget: budget})
		}
	}
	return hosts
}

// budgetOf is the budget of a host as plans count it, 0 for no limit; false if
// it holds no expert. What it has refused counts for less than what it has said
// that it may hold.
func budgetOf(m *pb.Member, expertBytes uint64) (budget uint64, some bool) {
	r := m.Refused
	if r.GetNeedBytes() == 0 {
		return m.MemoryBudgetBytes, true
	}
	high, low := bits.Mul64(uint64(r.Experts), min(r.RoomBytes, r.NeedBytes))
	held, _ := bits.Div64(high, low, r.NeedBytes) // experts that have room: at most those asked for
	if held == 0 {
		return 0, false
	}
	if high, budget = bits.Mul64(held, expertBytes); high > 0 {
		budget = math.MaxUint64
	}
	if said := m.MemoryBudgetBytes; said > 0 {
		budget = min(budget, said)
	}
	return budget, true
}

func names(hosts []plan.Host) string {
	ids := make([]string, len(hosts))
	for i, h := range hosts {
		ids[i] = h.ID
	}
	return strings.Join(ids, ", ")
}
