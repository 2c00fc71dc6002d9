package admission

import (
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// checkForecast refuses a request whose first token is predicted for after its
// deadline, as long as others go before it.
func (a *Admission) checkForecast(r Request, accept *pb.Accept, now time.Time) error {
	deadline := float64(accept.DeadlineMs) / 1000
	if deadline == 0 || !a.busy() {
		return nil
	}
	f := a.demand.forecast(r.ID, accept, a.seen(), now)
	if f.turn == 0 || f.first <= deadline {
		return nil
	}
	return overloaded(a.demand.promise(r, accept.Weight, now, f.first-deadline, f.each, workOf(accept)),
		"the first token is predicted in %.1f s, and the deadline is in %.1f s", f.first, deadline)
}

// checkRoom refuses a request when as many wait as may. Places are held for
// those that were promised one, but not so many that the queue runs empty. The tenant
// that sends most would have nearly all places, so a tenant that has less than its
// share of them may wait all the same: with these, twice as many wait at most.
func (a *Admission) checkRoom(r Request, waiting int, now time.Time) error {
	most := a.maxQueued
	bound := most - a.demand.held(r, most/2, now)
	if waiting < bound || waiting < 2*most && a.hasLess(r, most, now) {
		return nil
	}
	first, each := a.demand.places(waiting-bound+1, a.seen())
	return overloaded(a.demand.promise(r, a.quotas.of(r.Flow.Tenant).Weight, now, first, each, 0),
		"%d requests wait already, and %d may (--max-queued)", waiting, most)
}

// checkBrownout refuses what would make steps even longer that are too long already, where no
// brownout may go further.
func (a *Admission) checkBrownout() error {
	attention := members.OfService(a.members.Snapshot(), "attention")
	for _, m := range attention {
		if m.Stats[members.BrownoutFloored] == 0 {
			return nil
		}
	}
	if len(attention) == 0 {
		return nil // that is told elsewhere
	}
	return edge.Errorf(edge.Overloaded, "steps take longer than they are to, though the brownout goes as far as it may (--max-loss)")
}

// hasLess says whether others wait beside a request's tenant, and it has less than its
// share of the places.
func (a *Admission) hasLess(r Request, places int, now time.Time) bool {
	waiting, share := a.demand.of(r.Flow.Tenant, a.quotas.of(r.Flow.Tenant).Weight, now)
	return share < 1 && float64(waiting-1)/a.seen() < share*float64(places)
}

// fullShare of a stream's bound is where new requests are refused: the rest
// is for those that run, since they were accepted.
const fullShare = 0.9

// checkStreams refuses what would need room in streams that are nearly full.
func checkStreams(levels *probe.Levels, specs ...schemas.StreamSpec) error {
	for _, spec := range specs {
		if seen := levels.Of(spec.Name); seen.Share >= fullShare {
			return edge.Errorf(edge.Overloaded, "stream %s holds %s, and the rest is for the requests that run; %s", spec.Name, seen.How, probe.Cure(spec.Kind))
		}
	}
	return nil
}
