package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// planSwitch holds the plan in use and the newest one, and goes over to that
// when all its functions are warm: load, then switch.
type planSwitch struct {
	mu     sync.RWMutex
	used   *plan.Table
	newest *plan.Table
	warm   map[string]uint64 // host → plan version it has applied
}

func (p *planSwitch) current() *plan.Table {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.used
}

// ready says whether every row can be routed to a live host.
func (p *planSwitch) ready() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.used == nil {
		return errors.New("no plan whose functions are all warm")
	}
	alive := func(host string) bool { _, here := p.warm[host]; return here }
	if !p.used.Usable(alive) {
		return fmt.Errorf("plan %d has functions without a live expert host", p.used.Version)
	}
	return nil
}

func (p *planSwitch) offer(t *plan.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = t
	p.advance()
}

func (p *planSwitch) hosts(warm map[string]uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warm = warm
	p.advance()
}

// advance uses the newest plan once each of its functions has a live host that
// has applied it: others of its hosts may take their time. p.mu is held.
func (p *planSwitch) advance() {
	if p.newest == nil || p.newest == p.used {
		return
	}
	if p.newest.Usable(func(h string) bool { return p.warm[h] >= p.newest.Version }) {
		p.used = p.newest
	}
}

// warmReplicas is the number of live hosts of a function, at least one.
func (p *planSwitch) warmReplicas(f *pb.Function) int {
	if len(f.Hosts) == 1 {
		return 1
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := 0
	for _, h := range f.Hosts {
		if p.warm[h] > 0 {
			n++
		}
	}
	return max(1, n)
}

// followPlan takes new plans in until ctx ends.
func (s *Service) followPlan(ctx context.Context) {
	s.d.Plans.Follow(ctx, s.d.Logger, func(p *planstore.Plan) {
		s.plan.offer(p.Table)
		s.acknowledge()
	})
}

// followMembers keeps track of the hosts until ctx ends.
func (s *Service) followMembers(ctx context.Context) {
	s.view.Follow(ctx, func(all []*pb.Member) {
		s.plan.hosts(WarmHosts(all))
		s.acknowledge()
	})
}

// acknowledge tells which plan is in use, so that hosts can drop what is older.
func (s *Service) acknowledge() {
	if t := s.plan.current(); t != nil {
		s.presence.SetPlan(t.Version)
		s.presence.SetReady(true)
	}
}

// WarmHosts lists the expert hosts that serve, with the plan each has applied.
func WarmHosts(all []*pb.Member) map[string]uint64 {
	warm := map[string]uint64{}
	for _, m := range members.OfService(all, "expert") {
		if !m.Draining {
			warm[m.Id] = m.PlanVersion
		}
	}
	return warm
}
