package residency

import (
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What plans want of functions, and do not want any more.

// adopt says of each function of a layer what is wanted of it from now on; their
// keepers do it. A newer plan overtakes the one that is being applied: what both want goes
// on loading, the rest is cancelled.
func (t *table) adopt(l *plan.Layer) {
	layer := int(l.Layer)
	if t.began.IsZero() {
		t.began = time.Now()
	}
	// With none wanted anywhere, the model is at zero on purpose.
	t.Presence.Set(members.WantedWarm, float64(t.plans.adopt(l, t.Host)))
	homes := plan.Homes(l.LayerPlan)
	for _, reserve := range []bool{false, true} { // which is loaded if there is room beside
		for _, spec := range l.Functions { // loads are wanted in the plan's order
			if w := plan.WantOn(spec, t.Host); w != nothing && (w == kept) == reserve {
				t.want(l, spec, w, homes[spec.Id])
			}
		}
	}
	for id, f := range t.functions {
		if f.layer == layer && plan.WantOn(l.Function(id), t.Host) == nothing {
			t.retire(f, l.Version)
		}
	}
	t.retryRefused()
	t.announce(layer)
}

// want is for what a plan wants here. Its home is empty if it has none.
func (t *table) want(l *plan.Layer, spec *pb.Function, w pb.Want, home string) {
	f := t.functions[spec.Id]
	isNew := f == nil
	if isNew {
		f = newFunction(int(l.Layer), spec, t.United, t.Metrics)
		t.functions[spec.Id] = f
	}
	f.alone = len(spec.Placements) == 1
	f.evict, f.borrowed = stays, false
	if f.offloaded = w != kept && t.offloads(f); f.offloaded {
		w = cold
	}
	t.pin(f, f.offloaded && t.pins(l, f, spec))
	if f.want == w {
		return
	}
	f.retiredBy, f.drop = 0, false // also where its keeper has not yet begun to drop it
	f.want, f.priority, f.unused = w, t.plans.adopted, time.Now()
	if w == kept { // it may be in its group, which it leaves as a retired one does
		f.retiredBy = l.Version
	}
	f.roused = w == cold && !f.offloaded && f.state.Phase == isWarm // until nobody needs it
	if !isNew {                                                     // it takes rows as it did before
		if _, err := unitsOf(f.layer, spec, t.United); err != nil && f.cannot == nil {
			t.Logger.Error("a function goes on as it was planned before", "layer", f.layer, "error", err)
		}
	}
	switch {
	case !isNew || f.cannot != nil:
	case f.offloaded && !f.pinned:
		if home == "" || home == t.Host { // else its rows go elsewhere
			t.fill(f)
		}
	case f.pinned || w == warm || w == kept && t.fits(f): // before others let go of what it shares with them
		f.load(t.ctx, t.Device, t.plans.adopted)
	}
	t.kick(f)
}

// retire is for what a plan does not want here. What gates may use serves on; of what they
// do not know, what is warm rests, and the rest goes at once.
func (t *table) retire(f *Function, version uint64) {
	if f.want != nothing || f.retiredBy > version { // or the versions have begun again
		f.retiredBy = version
	}
	if f.want == warm || f.want == cold {
		f.unused = time.Now()
	}
	f.want, f.borrowed = nothing, false
	if f.receiving == nil && (f.state.Phase != isWarm || !t.rests(f, time.Now())) {
		f.drop = true
		f.interrupt()
	}
	t.kick(f)
}

// dropRetired lets the retired functions go whose successors every gate uses.
func (t *table) dropRetired(all []*pb.Member) {
	gates := members.OfService(all, "gate")
	for _, f := range t.functions {
		if f.want != nothing && f.want != kept || f.drop || f.receiving == nil {
			continue
		}
		behind := func(gate *pb.Member) bool { return t.network.Acknowledged(gate.Id, f.layer) < f.retiredBy }
		if !slices.ContainsFunc(gates, behind) && (!t.plans.places(f) || t.servedElsewhere(f, all)) {
			f.drop = true
			t.kick(f)
		}
	}
}

// servedElsewhere reports whether another live host takes what comes to a function that has moved.
func (t *table) servedElsewhere(f *Function, all []*pb.Member) bool {
	return slices.ContainsFunc(t.network.Replicas(f.layer, f.spec.Id), func(r planstore.Replica) bool {
		live := slices.ContainsFunc(all, func(m *pb.Member) bool { return m.Id == r.Host && !m.Draining })
		return r.Host != t.Host && r.Serves() && live
	})
}
