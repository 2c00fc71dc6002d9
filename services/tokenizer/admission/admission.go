package admission

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
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

// Enter counts a request as waiting while it is judged, and says whether it did not wait yet.
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
	if err := a.checkBrownout(); err != nil {
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

// Ended counts the end of a request that had its turn, or did not, and gives its
// tenant the tokens back that it did not need.
func (a *Admission) Ended(accept *pb.Accept, end *pb.Terminal, hadTurn bool, tokens int32) {
	tenant, now := schemas.FlowOf(accept).Tenant, time.Now()
	if !hadTurn {
		a.restore(tenant, workOf(accept), now)
		return
	}
	a.demand.done(accept, end.Timings, a.busy(), now)
	a.restore(tenant, float64(accept.MaxTokens-tokens), now)
}

// busy says whether attention has no place for a request that comes now.
func (a *Admission) busy() bool {
	all := a.members.Snapshot()
	return members.FreePlaces(all) == 0 && members.WaitingIn(all) > 0
}

// seen is the share of all requests that this replica sees in its shards. It is
// above 0, so that one that serves none does not divide by it.
func (a *Admission) seen() float64 {
	return max(1, float64(a.shards())) / schemas.LogShards
}
