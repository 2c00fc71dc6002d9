package tokenizer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// busy says whether attention has no place for who comes now.
func (s *Service) busy() bool {
	all := s.view.Snapshot()
	return members.FreePlaces(all) == 0 && members.WaitingIn(all) > 0
}

// seen is the share of all requests that this replica sees in its shards. It is
// above 0, so that who serves none does not divide by it.
func (s *Service) seen() float64 {
	return max(1, float64(s.shards.count())) / schemas.LogShards
}

// checkForecast refuses a request whose first token is predicted for after its
// deadline, as long as others go before it.
func (s *Service) checkForecast(in *incoming, accept *pb.Accept, now time.Time) error {
	deadline := float64(accept.DeadlineMs) / 1000
	if deadline == 0 || !s.busy() {
		return nil
	}
	f := s.demand.forecast(in.prompt.RequestId, accept, s.seen(), now)
	if f.turn == 0 || f.first <= deadline {
		return nil
	}
	return overloaded(s.demand.promise(in, accept.Weight, now, f.first-deadline, f.each, workOf(accept)),
		"the first token is predicted in %.1f s, and the deadline is in %.1f s", f.first, deadline)
}

// checkRoom refuses a request when as many wait as may. Places are held for
// those who were promised one, but not so many that the queue runs empty. The tenant
// that sends most would have nearly all places, so a tenant that has less than its
// share of them may wait all the same: with these, twice as many wait at most.
func (s *Service) checkRoom(in *incoming, waiting int, now time.Time) error {
	most := s.config.MaxQueued
	bound := most - s.demand.held(in, most/2, now)
	if waiting < bound || waiting < 2*most && s.hasLess(in, most, now) {
		return nil
	}
	first, each := s.demand.places(waiting-bound+1, s.seen())
	return overloaded(s.demand.promise(in, s.quotas.of(in.flow.Tenant).Weight, now, first, each, 0),
		"%d requests wait already, and %d may (--max-queued)", waiting, most)
}

// hasLess says whether others wait beside a request's tenant, and it has less than its
// share of the places.
func (s *Service) hasLess(in *incoming, places int, now time.Time) bool {
	waiting, share := s.demand.of(in.flow.Tenant, s.quotas.of(in.flow.Tenant).Weight, now)
	return share < 1 && float64(waiting-1)/s.seen() < share*float64(places)
}

// checkQueue refuses a new request when too many wait already, all of them or its
// tenant's, or its streams are nearly full.
func (s *Service) checkQueue(ctx context.Context, in *incoming) error {
	now := time.Now()
	waiting := s.probe.Sequences.Waiting(ctx, now)
	refused := checkStreams(&s.probe.Streams.Levels, s.d.Streams.Tokens(), s.d.Streams.Sequences())
	if refused == nil {
		refused = s.checkQuotas(in, now)
	}
	if refused == nil {
		refused = s.checkRoom(in, waiting, now)
	}
	return s.unlessTaken(ctx, in, refused)
}

// unlessTaken refuses a request if it is new. One that was accepted before is
// not, however its prompt comes again; and one that was delivered before may be
// in another replica's hands.
func (s *Service) unlessTaken(ctx context.Context, in *incoming, refused error) error {
	if refused == nil || in.again() {
		return nil
	}
	_, err := s.log.Last(ctx, in.prompt.RequestId)
	if errors.Is(err, tokenlog.ErrUnknown) {
		return refused
	}
	return err
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

// overloaded is a refusal that says in how many seconds to come again.
func overloaded(seconds float64, format string, args ...any) error {
	refused := edge.Errorf(edge.Overloaded, format, args...)
	refused.RetryAfter = after(seconds)
	return refused
}

// Jitter keeps those apart who are told the same; it is less than promises are kept for.
const (
	jitterShare = 0.1
	mostJitter  = admission.Grace / 2.0
)

// after is what a producer is told of a time in seconds.
func after(seconds float64) time.Duration {
	seconds += rand.Float64() * min(jitterShare*seconds, mostJitter)
	return time.Duration(seconds * float64(time.Second))
}
