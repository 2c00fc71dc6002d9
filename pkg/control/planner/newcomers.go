package planner

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// answerPoll is how often a new planner looks whether all have answered.
	answerPoll = 2 * time.Millisecond
	// callPause is the least time between two calls for newcomers.
	callPause = 100 * time.Millisecond
)

// callNewcomers lets those answer soon who are heard for the first time.
func (p *Planner) callNewcomers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Members.Newcomers():
			p.Caller.Call()
			_ = pause.For(ctx, callPause) // the loop sees the end of ctx
		}
	}
}

// awaitAnswers waits until the first plan would leave out nobody who is here: until
// all hosts that were heard have answered, and all have been heard whom the
// plan in force names. Both take one renewal at most.
func (p *Planner) awaitAnswers(ctx context.Context) {
	old, _ := p.Plans.Read(ctx) // what cannot be read names nobody
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for limit := time.Now().Add(members.Hearing); time.Now().Before(limit); {
		those, all := p.Members.Answered("expert")
		_, others := p.Members.Answered(p.YieldTo) // one of them may plan in our place
		if len(those) > 0 && all && others && (p.Members.Synced() || present(old, those)) {
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
func present(state planstore.State, all []*pb.Member) bool {
	hosts := plan.Hosts(state.Layers())
	for _, m := range all {
		delete(hosts, m.Id)
	}
	return len(hosts) == 0
}
