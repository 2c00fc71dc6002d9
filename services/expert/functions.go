package expert

import (
	"context"
	"errors"
	"fmt"
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
	planstore.Follow(ctx, s.d.Plans, s.d.Logger, func(p *planstore.Plan) {
		if err := s.apply(ctx, p); err != nil && ctx.Err() == nil {
			s.d.Logger.Error("plan not applied", "version", p.Version(), "error", err)
		}
	})
}

// apply makes this host's functions of a plan warm, joins their groups, and
// only then announces the plan as applied.
func (s *Service) apply(ctx context.Context, p *planstore.Plan) error {
	wanted := map[string]bool{}
	for _, lp := range p.Layers {
		for _, f := range lp.Functions {
			if !hosts(f, s.id) {
				continue
			}
			wanted[f.Id] = true
			if err := s.serve(ctx, int(lp.Layer), f); err != nil {
				return fmt.Errorf("serving function %s of layer %d: %w", f.Id, lp.Layer, err)
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

func hosts(f *pb.Function, id string) bool {
	for _, h := range f.Hosts {
		if h == id {
			return true
		}
	}
	return false
}

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
	var err error
	f.receiving, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Expert(layer), Name: spec.Id, Subject: s.d.Subjects.Expert(layer, spec.Id), MaxInFlight: inFlight,
	}, s.receiver(f))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.functions[spec.Id] = f
	s.mu.Unlock()
	return nil
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

// drop finishes functions, removes their groups and frees experts that no
// other function of this host has.
func (s *Service) drop(ctx context.Context, fs []*function) {
	for _, f := range fs {
		drain, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := f.receiving.Drain(drain); err != nil {
			s.d.Logger.Warn("function did not drain", "function", f.spec.Id, "error", err)
		}
		cancel()
		if err := s.d.DeleteGroup(ctx, f.layer, f.spec.Id); err != nil {
			s.d.Logger.Debug("removing a consumer group", "function", f.spec.Id, "error", err)
		}
		for _, e := range f.spec.Experts {
			if id := (forward.ExpertID{Layer: f.layer, Expert: int(e)}); !s.uses(id) {
				s.bank.Evict(id)
			}
		}
	}
}

func (s *Service) uses(id forward.ExpertID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		if f.layer != id.Layer {
			continue
		}
		for _, e := range f.spec.Experts {
			if int(e) == id.Expert {
				return true
			}
		}
	}
	return false
}

// drainAll finishes what the host has taken in all functions.
func (s *Service) drainAll(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.functions {
		errs = append(errs, f.receiving.Drain(ctx))
	}
	return errors.Join(errs...)
}
