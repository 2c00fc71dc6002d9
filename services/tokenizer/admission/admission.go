package admission

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Admission says which requests one replica admits.
type Admission struct {
	d         *deployment.Deployment
	metrics   *telemetry.Metrics
	replica   string
	maxQueued int
	probe     *probe.Probe
	reserved  *Reservations
	shards    func() int

	members Members
	quotas  *quotas
	demand  *demand
}

// New returns an admission that has counted nothing.
func New(s Settings) *Admission {
	d := s.Deployment
	return &Admission{
		d: d, metrics: d.Telemetry.Metrics, replica: s.Replica, maxQueued: s.MaxQueued, probe: s.Probe, reserved: s.Reserved, shards: s.Shards,
		demand: newDemand(), quotas: newQuotas(s.Tenants, d.Streams.Tokens().MaxAge),
	}
}

// See says who the members are. It comes before all that asks about them.
func (a *Admission) See(all Members) { a.members = all }

// Enter counts a request as waiting while it is judged, and reports whether it did not wait yet.
func (a *Admission) Enter(r Request) bool { return a.demand.enter(r.ID, r.Flow, time.Now()) }

// Leave counts a request that entered no more, unless it was accepted: then the owner of
// its shard goes on with that, which sees it within that time if it is here.
func (a *Admission) Leave(r Request, seenWithin time.Duration) {
	a.demand.leave(r.ID, seenWithin, time.Now())
}

// CheckQueue refuses a new request when too many wait already, all of them or its
// tenant's, or its streams are nearly full.
func (a *Admission) CheckQueue(ctx context.Context, r Request) error {
	now := time.Now()
	waiting := a.probe.Sequences.Waiting(ctx, now)
	if err := checkStreams(&a.probe.Streams.Levels, a.d.Streams.Tokens(), a.d.Streams.Sequences()); err != nil {
		return err
	}
	if err := a.checkQuotas(r, now); err != nil {
		return err
	}
	if err := a.checkBrownout(r, now); err != nil {
		return err
	}
	return a.checkRoom(r, waiting, now)
}

// CheckForecast refuses a request that entered and whose first token is predicted for
// after its deadline, as long as others go before it.
func (a *Admission) CheckForecast(r Request, accept *pb.Accept) error {
	a.demand.expect(r.ID, float64(accept.Weight), workOf(accept))
	return a.checkForecast(r, accept, time.Now())
}

// Reserve keeps room in the token log for a new request, of whose log so many bytes
// remain when it was packed.
func (a *Admission) Reserve(r Request, bytes, packed int64) error {
	l := a.probe.Streams.Levels.Of(a.d.Streams.Tokens().Name)
	n := need{bytes, packed > LargeLog(l.Bound)}
	if err := a.reserved.add(r.ID, n, a.ReservedElsewhere(), l, time.Now()); err != nil {
		return err
	}
	return a.checkLog(r, bytes, time.Now())
}

// Accepted counts a request whose log was opened here, before its shard's owner sees it.
func (a *Admission) Accepted(r Request, accept *pb.Accept) {
	a.demand.kept(r.Flow.Tenant, r.ID)
	a.spend(r, workOf(accept), time.Now())
}

// Weight is a tenant's share beside other tenants'.
func (a *Admission) Weight(tenant string) uint32 { return a.quotas.of(tenant).Weight }

// Waits counts a request of a shard that is served here.
func (a *Admission) Waits(request string, accept *pb.Accept) { a.demand.accepted(request, accept) }

// Turn says that a request had its turn, or ended before.
func (a *Admission) Turn(request string) { a.demand.turn(request) }

// Runs counts a request of a shard that is served here and had its turn, and Gone none that is not served here any more.
func (a *Admission) Runs(request string, accept *pb.Accept) { a.demand.runs(request, accept) }

// Gone is as Runs says.
func (a *Admission) Gone(request string) {
	a.demand.turn(request)
	a.demand.over(request)
}

// Ended counts the end of a request that had its turn, or did not, and gives its
// tenant the tokens back that it did not need.
func (a *Admission) Ended(request string, accept *pb.Accept, end *pb.Terminal, hadTurn bool, tokens int32) {
	tenant, now := schemas.FlowOf(accept).Tenant, time.Now()
	a.demand.over(request)
	if !hadTurn {
		a.restore(tenant, workOf(accept), now)
		return
	}
	a.demand.done(accept, end.Timings, a.busy(), now)
	a.restore(tenant, float64(accept.MaxTokens-tokens), now)
}

// busy reports whether attention has no place for a request that comes now.
func (a *Admission) busy() bool {
	all := a.members.Snapshot()
	return members.FreePlaces(all) == 0 && members.WaitingIn(all) > 0
}

// seen is the share of all requests that this replica sees in its shards. It is
// above 0, so that one that serves none does not divide by it.
func (a *Admission) seen() float64 {
	return max(1, float64(a.shards())) / schemas.LogShards
}

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
// brownout may go further, unless others are to be refused before.
func (a *Admission) checkBrownout(r Request, now time.Time) error {
	attention := members.OfService(a.members.Snapshot(), "attention")
	for _, m := range attention {
		if m.Stats[members.BrownoutFloored] == 0 {
			return nil
		}
	}
	if len(attention) == 0 { // that is told elsewhere
		return nil
	}
	if a.demand.bearable(r, float64(a.quotas.of(r.Flow.Tenant).Weight), now) {
		return nil
	}
	return edge.Errorf(edge.Overloaded, "steps take longer than they are to, though the brownout goes as far as it may (--max-loss)")
}

// hasLess reports whether others wait beside a request's tenant, and it has less than its
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

// Settings are by what one replica admits.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	// Tenants are what tenants may have, by name.
	Tenants map[string]Quota
	// MaxQueued is how many sequences may wait for attention.
	MaxQueued int
	Probe     *probe.Probe
	// Reserved are the bytes that the token log must still take.
	Reserved *Reservations
	// Shards counts the shards of the token log that this replica serves.
	Shards func() int
}

// Members are those that are seen; a members.View is.
type Members interface{ Snapshot() []*pb.Member }

// Request is one that asks to be admitted.
type Request struct {
	ID   string
	Flow schemas.Flow
	// OwnExperts says that none of its rows may be degraded in a brownout.
	OwnExperts bool
}
