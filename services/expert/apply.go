package expert

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// followPlan adopts each layer's new plans until ctx ends. A newer one overtakes
// the one that is being applied: what both want goes on loading, the rest is
// cancelled.
func (s *Service) followPlan(ctx context.Context) error {
	return s.d.Plans.Follow(ctx, func(v planstore.Value) {
		if v.Plan != nil {
			s.adopt(v.Plan)
		}
	})
}

// adopt says of each function of a layer what is wanted of it from now on; their
// keepers do it. It waits for nothing.
func (s *Service) adopt(l *plan.Layer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	layer := int(l.Layer)
	s.plans[layer] = l
	s.adopted++
	s.tellWarm(l)
	for _, reserve := range []bool{false, true} { // which is loaded if there is room beside
		for _, spec := range l.Functions { // loads are wanted in the plan's order
			if w := plan.WantOn(spec, s.id); w != nothing && (w == kept) == reserve {
				s.wantFunction(l, spec, w)
			}
		}
	}
	for id, f := range s.functions {
		if f.layer == layer && plan.WantOn(l.Function(id), s.id) == nothing {
			s.retireFunction(f, l.Version)
		}
	}
	s.retryRefused()
	s.announce(layer)
}

// tellWarm tells how many functions plans want warm here: with none anywhere, the model is at
// zero on purpose; s.mu is held.
func (s *Service) tellWarm(l *plan.Layer) {
	n := 0
	for _, f := range l.Functions {
		if plan.WantOn(f, s.id) == warm {
			n++
		}
	}
	s.wanted[int(l.Layer)] = n
	sum := 0
	for _, of := range s.wanted {
		sum += of
	}
	s.presence.Set(members.WantedWarm, float64(sum))
}

// wantFunction is for what a plan wants here; s.mu is held.
func (s *Service) wantFunction(l *plan.Layer, spec *pb.Function, w pb.Want) {
	f := s.functions[spec.Id]
	isNew := f == nil
	if isNew {
		f = s.newFunction(int(l.Layer), spec)
		s.functions[spec.Id] = f
	}
	f.alone = len(spec.Placements) == 1
	f.evict, f.borrowed = stays, false
	f.offloaded = w == warm && s.config.Offload != nil && s.canHold(f)
	if f.offloaded {
		w = cold
	}
	if f.want == w {
		return
	}
	f.retiredBy, f.drop = 0, false // also where its keeper has not yet begun to drop it
	f.want, f.priority, f.unused = w, s.adopted, time.Now()
	if w == kept { // it may be in its group, which it leaves as a retired one does
		f.retiredBy = l.Version
	}
	f.roused = w == cold && f.state.Phase == isWarm // until nobody needs it
	early := isNew && f.offloaded && s.holds(f)
	f.roused = f.roused || early
	if !isNew { // it takes rows as it did before
		if err := s.able(spec); err != nil && f.cannot == nil {
			s.d.Logger.Error("a function goes on as it was planned before", "layer", f.layer, "error", err)
		}
	}
	if isNew && f.cannot == nil && (w == warm || early || w == kept && s.fits(f)) { // before others let go of what it shares with them
		f.load(s.ctx, s.device, s.adopted)
	}
	s.kick(f)
}

// retireFunction is for what a plan does not want here; s.mu is held. What gates
// may use serves on; of what they do not know, what is warm rests, and the rest
// goes at once.
func (s *Service) retireFunction(f *function, version uint64) {
	if f.want != nothing || f.retiredBy > version { // or the versions have begun again
		f.retiredBy = version
	}
	if f.want == warm || f.want == cold {
		f.unused = time.Now()
	}
	f.want, f.borrowed = nothing, false
	if f.receiving == nil && (f.state.Phase != isWarm || !s.rests(f, time.Now())) {
		f.drop = true
		f.interrupt()
	}
	s.kick(f)
}

// retryRefused lets functions try again whose memory may be free now; s.mu is held.
func (s *Service) retryRefused() {
	for _, f := range s.functions {
		if f.state.Phase == isRefused || f.state.Phase == isWarming {
			s.kick(f)
		}
	}
}

// announce tells the others of a layer's functions here, and notes when the host
// has begun to serve what is wanted of it; s.mu is held.
func (s *Service) announce(layer int) {
	r := &pb.HostLayer{Host: s.id, Layer: uint32(layer)}
	for _, f := range s.functions {
		if f.layer == layer {
			r.Functions = append(r.Functions, f.shown())
		}
	}
	slices.SortFunc(r.Functions, func(a, b *pb.FunctionState) int { return cmp.Compare(a.Id, b.Id) })
	if said := s.said[layer]; !slices.EqualFunc(said, r.Functions, func(a, b *pb.FunctionState) bool { return proto.Equal(a, b) }) {
		s.said[layer] = r.Functions
		s.network.announce(r)
	}
	if !s.serves && s.begun() {
		s.serves = true
		close(s.serving)
	}
}

// awaitServing says that the host is ready when it serves, which is announced with
// what mu guards, or returns when ctx ends.
func (s *Service) awaitServing(ctx context.Context) {
	select {
	case <-s.serving:
		s.presence.SetReady(true)
	case <-ctx.Done():
	}
}

// begun says whether each layer has a plan, and each function that is wanted here
// is as it is wanted, or refused; s.mu is held.
func (s *Service) begun() bool {
	if len(s.plans) < len(s.d.MoELayers()) {
		return false
	}
	for _, f := range s.functions {
		if f.loads() && f.state.Phase != isWarm && f.state.Phase != isRefused {
			return false
		}
	}
	return true
}
