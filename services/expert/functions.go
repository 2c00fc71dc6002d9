package expert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/members"
	"github.com/switchyard/switchyard/pkg/planstore"
	"github.com/switchyard/switchyard/pkg/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// function is a replica of a function on this host.
//
//	cold ──load──▶ warm ──newer plan without it──▶ retired ──no gate uses it──▶ drained, evicted
type function struct {
	layer     int
	spec      *pb.Function
	receiving *bus.Receiving
	// retiredBy is the plan that no longer has the function; 0 while it serves.
	retiredBy uint64
	loads     map[uint32]*load
	began     atomic.Int64 // when the dispatch came that is being computed, Unix nanoseconds; 0: none is
}

// load counts an expert's rows.
type load struct {
	name string // in the host's stats
	n    atomic.Int64
	rows prometheus.Counter
}

func (s *Service) newFunction(layer int, spec *pb.Function) *function {
	f := &function{layer: layer, spec: spec, loads: map[uint32]*load{}}
	for _, e := range spec.Experts {
		f.loads[e] = &load{name: fmt.Sprintf("expert_rows.%d.%d", layer, e), rows: s.metrics.ExpertRows(layer, int(e))}
	}
	return f
}

func isPermanent(err error) bool {
	var stranger *wire.StrangerError
	return errors.As(err, &stranger) || errors.Is(err, wire.ErrMalformed)
}

// followPlan applies new plans until ctx ends.
func (s *Service) followPlan(ctx context.Context) {
	s.d.Plans.Follow(ctx, s.d.Logger, func(p *planstore.Plan) { s.applyUntilDone(ctx, p) })
}

// applyRetry is the pause before a plan that could not be applied is tried again.
const applyRetry = 500 * time.Millisecond

// applyUntilDone applies a plan, or the one that replaced it meanwhile: gates
// wait for its functions.
func (s *Service) applyUntilDone(ctx context.Context, p *planstore.Plan) {
	var said news
	for {
		err := s.apply(ctx, p)
		if err == nil || ctx.Err() != nil {
			return
		}
		said.error(s.d.Logger, "plan not applied; trying again", err)
		pause(ctx, applyRetry)
		if newer, err := s.d.Plans.Read(ctx); err == nil && newer.Version() > p.Version() {
			p = newer
		}
	}
}

// apply makes this host's functions of a plan warm, joins their groups, and
// only then announces the plan as applied.
func (s *Service) apply(ctx context.Context, p *planstore.Plan) error {
	wanted := map[string]bool{}
	s.expect(p.Layers)
	for _, lp := range p.Layers {
		for _, f := range lp.Functions {
			if !hosts(f, s.id) {
				continue
			}
			wanted[f.Id] = true
			if err := s.serve(ctx, int(lp.Layer), f); err != nil {
				return fmt.Errorf("plan %d: serving function %s of layer %d: %w", p.Version(), f.Id, lp.Layer, err)
			}
		}
	}
	s.mu.Lock()
	for id, f := range s.functions {
		if f.retiredBy == 0 && !wanted[id] {
			f.retiredBy = p.Version()
		}
	}
	s.mu.Unlock()
	s.presence.SetPlan(p.Version())
	s.presence.SetReady(true)
	s.d.Logger.Info("plan applied", "version", p.Version(), "functions", len(wanted), "reason", p.Head.Reason)
	return nil
}

// expect says what the newest plan is, before anything of it is loaded.
func (s *Service) expect(layers []*pb.LayerPlan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = layers
}

func hosts(f *pb.Function, id string) bool { return slices.Contains(f.Hosts, id) }

// serve loads a function's experts and begins to take its rows.
func (s *Service) serve(ctx context.Context, layer int, spec *pb.Function) error {
	s.mu.Lock()
	f := s.functions[spec.Id]
	if f != nil {
		f.retiredBy = 0
	}
	s.mu.Unlock()
	if f != nil {
		return nil
	}
	for _, e := range spec.Experts {
		if err := s.bank.Load(forward.ExpertID{Layer: layer, Expert: int(e)}); err != nil {
			return err
		}
	}
	f = s.newFunction(layer, spec)
	if err := s.join(ctx, f); err != nil {
		return err
	}
	s.mu.Lock()
	s.functions[spec.Id] = f
	s.mu.Unlock()
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

// retireEvery is how often retired functions are looked at.
const retireEvery = time.Second

// retire drains functions that no gate sends to any more, until ctx ends.
func (s *Service) retire(ctx context.Context) {
	tick := time.NewTicker(retireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.drop(ctx, s.retirable())
		}
	}
}

// retirable takes out the retired functions whose successor plan every gate uses.
func (s *Service) retirable() (out []*function) {
	oldest := ^uint64(0)
	for _, m := range members.OfService(s.view.Snapshot(), "gate") {
		oldest = min(oldest, m.PlanVersion)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.functions {
		if f.retiredBy != 0 && oldest >= f.retiredBy {
			out = append(out, f)
			delete(s.functions, id)
		}
	}
	return out
}

// drop finishes functions, removes their groups and frees experts that are not
// used here any more.
func (s *Service) drop(ctx context.Context, fs []*function) {
	for _, f := range fs {
		drain, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := f.receiving.Drain(drain); err != nil {
			s.d.Logger.Warn("function did not drain", "function", f.spec.Id, "error", err)
		}
		cancel()
		if err := s.dropGroup(ctx, f); err != nil {
			s.d.Logger.Debug("removing a consumer group", "function", f.spec.Id, "error", err)
		}
		s.evict(f)
	}
}

// dropGroup removes the group of a function that the newest plan has on no
// host: else another one may be in it. This host joins none meanwhile.
func (s *Service) dropGroup(ctx context.Context, f *function) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	if s.planned(f.layer, f.spec.Id) {
		return nil
	}
	return s.d.DeleteGroup(ctx, f.layer, f.spec.Id)
}

// evict frees the experts of a function that nothing else here needs. A new
// plan cannot come between the look and the deed: it is set under the same
// lock, before anything of it is loaded.
func (s *Service) evict(f *function) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range f.spec.Experts {
		if id := (forward.ExpertID{Layer: f.layer, Expert: int(e)}); !s.uses(id) {
			s.bank.Evict(id)
		}
	}
}

// planned says whether the newest plan has a function, on whatever host.
func (s *Service) planned(layer int, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lp := range s.newest {
		named := func(f *pb.Function) bool { return f.Id == id }
		if int(lp.Layer) == layer && slices.ContainsFunc(lp.Functions, named) {
			return true
		}
	}
	return false
}

// uses says whether a function needs an expert that this host runs, or is just
// about to. s.mu is held.
func (s *Service) uses(id forward.ExpertID) bool {
	for _, f := range s.functions {
		if f.layer == id.Layer && has(f.spec, id.Expert) {
			return true
		}
	}
	for _, lp := range s.newest {
		for _, f := range lp.Functions {
			if int(lp.Layer) == id.Layer && hosts(f, s.id) && has(f, id.Expert) {
				return true
			}
		}
	}
	return false
}

func has(f *pb.Function, expert int) bool {
	return slices.Contains(f.Experts, uint32(expert))
}

// drainAll finishes what the host has taken in all functions.
func (s *Service) drainAll(ctx context.Context) error {
	var errs []error
	if s.own != nil {
		errs = append(errs, s.own.Drain(ctx)) // before the lock, which its handlers take
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		errs = append(errs, f.receiving.Drain(ctx))
	}
	return errors.Join(errs...)
}
