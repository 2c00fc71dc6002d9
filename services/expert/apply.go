package expert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// followPlan applies new plans until ctx ends. A newer one overtakes the one
// that is being applied: what both want goes on loading, the rest is cancelled.
func (s *Service) followPlan(ctx context.Context) {
	overtake := func() {}
	s.d.Plans.Follow(ctx, s.d.Logger, func(p *planstore.Plan) {
		overtake()
		s.adopt(p)
		overtake = s.begin(ctx, p)
	})
	overtake()
}

// begin applies a plan until the returned function is called, which waits until
// it has stopped.
func (s *Service) begin(ctx context.Context, p *planstore.Plan) (overtake func()) {
	ctx, cancel := context.WithCancel(ctx)
	var applying sync.WaitGroup
	applying.Go(func() { s.applyUntilDone(ctx, p) })
	return func() { cancel(); applying.Wait() }
}

// adopt wants the experts of a plan's functions, and then gives back those that
// only functions needed that were not warm yet and are not wanted any more.
func (s *Service) adopt(p *planstore.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest, s.wanted = p.Layers, map[string]bool{}
	for layer, spec := range functionsOn(p.Layers, s.id) {
		s.wanted[spec.Id] = true
		if f := s.functions[spec.Id]; f != nil {
			f.retiredBy = 0
		} else if s.coming[spec.Id] == nil {
			f := s.newFunction(layer, spec, p.Version())
			f.load(s.ctx, s.device)
			s.coming[spec.Id] = f
		}
	}
	for id, f := range s.coming {
		if !s.wanted[id] {
			delete(s.coming, id)
			f.release(s.device)
		}
	}
}

// functionsOn are the functions that a plan gives to a host, with their layers.
func functionsOn(layers []*pb.LayerPlan, host string) iter.Seq2[int, *pb.Function] {
	return func(yield func(int, *pb.Function) bool) {
		for _, lp := range layers {
			for _, f := range lp.Functions {
				if slices.Contains(f.Hosts, host) && !yield(int(lp.Layer), f) {
					return
				}
			}
		}
	}
}

// applyRetry is the pause before a plan that could not be applied is tried again.
const applyRetry = 500 * time.Millisecond

// applyUntilDone applies an adopted plan, or tries until ctx ends.
func (s *Service) applyUntilDone(ctx context.Context, p *planstore.Plan) {
	var said telemetry.Unrepeated
	for {
		err := s.apply(ctx, p)
		if err == nil || ctx.Err() != nil {
			return
		}
		said.Error(s.d.Logger, "plan not applied; trying again", err)
		select {
		case <-ctx.Done():
		case <-time.After(applyRetry):
		}
	}
}

// apply makes this host's functions of a plan warm, each as soon as its experts
// are loaded, and only when all are announces the plan as applied. Experts that
// do not fit beside those of retired functions take their place, before gates
// have gone over; if even that does not suffice, the planner is told.
func (s *Service) apply(ctx context.Context, p *planstore.Plan) error {
	cold := s.warmUp(ctx)
	if slices.ContainsFunc(cold, lacksMemory) && s.fits(p) {
		s.drop(ctx, s.takeUnwanted())
		cold = s.warmUp(ctx)
	}
	if r := s.refusal(p, cold); r != nil {
		s.refuse(r)
		return fmt.Errorf("plan %d: %w", p.Version(), errNoFit)
	}
	if len(cold) > 0 {
		f := cold[0].function
		return fmt.Errorf("plan %d: %d functions are not warm, among them %s of layer %d: %w",
			p.Version(), len(cold), f.spec.Id, f.layer, cold[0].err)
	}
	s.applied(p)
	return nil
}

// errNoFit has no numbers: refuse has logged them.
var errNoFit = errors.New("the host's memory budget does not hold its functions")

func (s *Service) applied(p *planstore.Plan) {
	s.mu.Lock()
	for id, f := range s.functions {
		if f.retiredBy == 0 && !s.wanted[id] {
			f.retiredBy = p.Version()
		}
	}
	n := len(s.wanted)
	s.mu.Unlock()
	s.presence.SetPlan(p.Version())
	s.presence.SetReady(true)
	s.d.Logger.Info("plan applied", "version", p.Version(), "functions", n, "reason", p.Head.Reason)
}

// notWarm is a function that could not be made warm.
type notWarm struct {
	function *function
	err      error
}

// warmUp waits for all functions that are coming, each on its own: one that is
// slow or fails delays no other. It returns those that are not warm, in order.
func (s *Service) warmUp(ctx context.Context) (cold []notWarm) {
	s.mu.Lock()
	coming := slices.SortedFunc(maps.Values(s.coming), func(a, b *function) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.spec.Id, b.spec.Id))
	})
	s.mu.Unlock()
	errs := make([]error, len(coming))
	var waiting sync.WaitGroup
	for i, f := range coming {
		waiting.Go(func() { errs[i] = s.warm(ctx, f) })
	}
	waiting.Wait()
	for i, err := range errs {
		if err != nil {
			cold = append(cold, notWarm{coming[i], err})
		}
	}
	return cold
}

// warm waits for a function's experts and begins to take its rows. After an
// error of a load it has none, and the next call begins anew.
func (s *Service) warm(ctx context.Context, f *function) error {
	if f.experts == nil {
		f.load(s.ctx, s.device) //nolint:contextcheck // a load outlives the plan that asked for it
	}
	if err := f.loaded(ctx); err != nil {
		if ctx.Err() == nil {
			f.release(s.device)
		}
		return err
	}
	if err := s.join(ctx, f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.coming, f.spec.Id)
	s.functions[f.spec.Id] = f
	return nil
}

// join begins to take a function's rows.
func (s *Service) join(ctx context.Context, f *function) (err error) {
	inFlight := inFlightShared
	if len(f.spec.Hosts) == 1 {
		inFlight = inFlightAlone
	}
	s.joining.Lock()
	defer s.joining.Unlock()
	f.receiving, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Expert(f.layer), Name: f.spec.Id, Subject: s.d.Subjects.Expert(f.layer, f.spec.Id), MaxInFlight: inFlight,
		Private: true, // so that the group of hosts that were killed goes by itself
	}, func(ctx context.Context, m *bus.Msg) error { return s.receive(ctx, m, f) })
	return err
}
