package planner

import (
	"context"
	"slices"
	"sync"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// awaitTurn waits while another service plans, and says whether to contend for
// the lease: not when ctx has ended.
func (p *Planner) awaitTurn(ctx context.Context) bool {
	p.awaitOther(ctx, false)
	return ctx.Err() == nil
}

// turn is a context that ends when another service plans.
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

// otherPlans says whether a service is here that plans in this one's place. Its
// replica has answered a call: a copied record does not keep the planners away.
func (p *Planner) otherPlans() bool {
	if p.YieldTo == "" {
		return false
	}
	those, _ := p.Members.Answered(p.YieldTo)
	return slices.ContainsFunc(those, func(m *pb.Member) bool { return m.Ready && !m.Draining })
}
