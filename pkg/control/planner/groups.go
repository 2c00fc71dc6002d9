package planner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// group is a function's consumer group.
type group struct {
	layer    int
	function string
}

// keepGroups lets the groups of functions that nobody is to join exist before
// the plan does: they keep what comes for them. Those that no plan has any more go
// by themselves.
func (t *tenure) keepGroups(ctx context.Context, layers []*pb.LayerPlan) error {
	wanted := map[group]bool{}
	for _, lp := range layers {
		maps.Copy(wanted, groupsKept(lp))
	}
	for g := range wanted {
		if t.kept[g] {
			continue
		}
		if err := t.Groups.EnsureGroup(ctx, g.layer, g.function, true); err != nil {
			return err
		}
		t.kept[g] = true
	}
	for g := range t.kept {
		if wanted[g] {
			continue
		}
		if err := t.Groups.EnsureGroup(ctx, g.layer, g.function, false); err != nil {
			return err
		}
		delete(t.kept, g)
	}
	return nil
}

// groupsKept returns those of a layer's functions that nobody is to join.
func groupsKept(l *pb.LayerPlan) map[group]bool {
	all := map[group]bool{}
	for _, f := range l.GetFunctions() {
		if nobodyJoins(f) {
			all[group{int(l.Layer), f.Id}] = true
		}
	}
	return all
}

// nobodyJoins reports whether no host is to be in a function's group.
func nobodyJoins(f *pb.Function) bool {
	for _, p := range f.Placements {
		if p.Want != pb.Want_WANT_KEPT {
			return false
		}
	}
	return true
}

// sweepAfter is how long a replica is no member before its records are cleared.
// One that comes back writes them again.
const sweepAfter = 10 * time.Second

// sweep clears what replicas have left that did not end by themselves.
func (t *tenure) sweep(ctx context.Context, now time.Time) {
	if !t.Members.Synced() {
		return
	}
	here := map[string]bool{}
	for _, m := range t.Members.Snapshot() {
		here[m.Id] = true
	}
	left := t.Records.Keys()
	maps.DeleteFunc(t.gone, func(id string, _ time.Time) bool { return len(left[id]) == 0 })
	for id, keys := range left {
		if here[id] {
			delete(t.gone, id)
		} else if since, known := t.gone[id]; !known {
			t.gone[id] = now
		} else if now.Sub(since) >= sweepAfter {
			delete(t.gone, id)
			for _, key := range keys {
				_ = t.Records.Clear(ctx, key) // what gets lost is cleared at the next look
			}
		}
	}
}

// maxExpertBytes and maxExperts bound what a host is believed to count.
const (
	maxExpertBytes = 1 << 40
	maxExperts     = 1 << 20
)

// hosts returns the members that may be given experts, and the bytes of one that their
// budgets are in: what most of them say, or else own. A host on another device
// counts other bytes for the same expert, and holds as many as by its own.
func hosts(all []*pb.Member, m plan.Model) (out []plan.Host, bytes uint64) {
	all = slices.DeleteFunc(slices.Clone(all), func(m *pb.Member) bool { return m.Draining })
	bytes = common(all, m.ExpertBytes)
	for _, h := range all {
		budget := h.MemoryBudgetBytes
		each := expertBytes(h)
		if each != 0 && each != bytes && budget > 0 {
			budget = max(1, min(budget/each, maxExperts)*bytes)
		}
		out = append(out, plan.Host{ID: h.Id, Budget: budget, Throttles: h.Stats[members.DeviceThrottled] > 0, United: offers(h, m, each, bytes)})
	}
	return out, bytes
}

// offers returns the united experts that a host can load, in the bytes that all budgets are in.
func offers(h *pb.Member, m plan.Model, each, bytes uint64) (all []plan.Offer) {
	for _, u := range h.GetUnited()[:min(len(h.GetUnited()), maxOffers)] {
		if o, ok := plan.OfferOf(u, m.Experts, len(m.MoELayers)); ok {
			if each != 0 && each != bytes {
				o.Bytes = max(1, uint64(float64(o.Bytes)/float64(each)*float64(bytes)))
			}
			all = append(all, o)
		}
	}
	return all
}

// maxOffers bounds the bundles of a host.
const maxOffers = 64

// common returns the median of the bytes that hosts count for an expert.
func common(all []*pb.Member, own uint64) uint64 {
	var each []uint64
	for _, m := range all {
		if n := expertBytes(m); n != 0 {
			each = append(each, n)
		}
	}
	if len(each) == 0 {
		return own
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// expertBytes returns a host's for an expert; 0 if it does not say, or what cannot be.
func expertBytes(m *pb.Member) uint64 {
	if n := m.GetExpertBytes(); n <= maxExpertBytes {
		return n
	}
	return 0
}

// Lease is the duty of planning, which one candidate has at a time.
type Lease interface {
	// Hold calls fn while the lease is held, as lease.Hold does.
	Hold(ctx context.Context, fn func(ctx context.Context, by planstore.Writer) error) error
}

// leaseKey is the lease's name in its bucket.
const leaseKey = "planner"

// InBucket returns the lease of a model, for a candidate of a unique name.
func InBucket(kv jetstream.KeyValue, owner string, o lease.Options) Lease {
	return inBucket{kv, owner, o}
}

type inBucket struct {
	kv      jetstream.KeyValue
	owner   string
	options lease.Options
}

// Hold implements Lease.
func (l inBucket) Hold(ctx context.Context, fn func(context.Context, planstore.Writer) error) error {
	return lease.Hold(ctx, l.kv, leaseKey, l.owner, l.options, func(ctx context.Context, held *lease.Held) error {
		return fn(ctx, planstore.Writer{Epoch: held.Epoch(), Holds: held.Holds})
	})
}

const (
	// ensureWithin bounds the wait for a store that others are to make, and ensureAgain is how long it
	// is not asked for again: plans do not wait for it.
	ensureWithin, ensureAgain = 2 * time.Second, 30 * time.Second
)

// objects is what a tenure knows of the store of rows on their way.
type objects struct {
	failed time.Time // when it could not be had; zero: it could
	said   pause.ErrorLog
}

// inForce returns the plan in force as policies see it: without what settings say of transfers.
func inForce(state planstore.State, s plan.Settings) map[int]*plan.Layer {
	layers := state.Layers()
	if s.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		for l, p := range layers {
			layers[l] = p.Unmoved()
		}
	}
	return layers
}

// move has rows travel as settings say, in layers that a policy has planned and in those that stay as
// they are. Where there is no store for objects rows travel in messages, and the log says why.
func (t *tenure) move(ctx context.Context, planned []*pb.LayerPlan, in planstore.State, s plan.Settings) []*pb.LayerPlan {
	all := slices.Clone(planned)
	if s.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		all = append(all, others(planned, in)...)
	}
	if all = plan.Moved(all, s); plan.Stores(all) && !t.stores(ctx) {
		return plan.Moved(all, plan.Settings{Transfer: plan.Direct})
	}
	return all
}

// others returns the layers of the plan in force that are not planned anew, in their order.
func others(planned []*pb.LayerPlan, in planstore.State) (all []*pb.LayerPlan) {
	layers := in.Layers()
	for _, lp := range planned {
		delete(layers, int(lp.GetLayer()))
	}
	for _, l := range slices.Sorted(maps.Keys(layers)) {
		all = append(all, layers[l].LayerPlan)
	}
	return all
}

// stores reports whether there is a store of rows, and has it made.
func (t *tenure) stores(ctx context.Context) bool {
	if !t.store.failed.IsZero() && time.Since(t.store.failed) < ensureAgain {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, ensureWithin)
	defer cancel()
	err := t.Groups.EnsureObjects(ctx)
	if err == nil {
		t.store = objects{}
		return true
	}
	t.store.failed = time.Now()
	t.store.said.Error(t.Logger, "rows travel in messages: there is no store for their objects; its users need the rights of `switchyard auth init --objects`, and `switchyard setup --objects` makes it", err)
	return false
}

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

// present reports whether all hosts of a plan are among the members.
func present(state planstore.State, all []*pb.Member) bool {
	hosts := plan.Hosts(state.Layers())
	for _, m := range all {
		delete(hosts, m.Id)
	}
	return len(hosts) == 0
}
