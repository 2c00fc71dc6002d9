package expert

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

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

// takeUnwanted takes out all functions that the newest plan does not have here.
func (s *Service) takeUnwanted() (out []*function) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.functions {
		if !s.wanted[id] {
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
		f.release(s.device)
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
	return s.deleteGroup(ctx, f)
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

// drainAll finishes what the host has taken in all functions, and frees all experts.
func (s *Service) drainAll(ctx context.Context) error {
	var errs []error
	if s.own != nil {
		errs = append(errs, s.own.Drain(ctx)) // before the lock, which its handlers take
	}
	s.mu.Lock()
	for _, f := range s.functions {
		errs = append(errs, f.receiving.Drain(ctx))
		f.release(s.device)
	}
	for _, f := range s.coming {
		f.release(s.device)
	}
	s.mu.Unlock()
	s.device.Close() // waits for loads
	return errors.Join(errs...)
}

// deleteGroup removes a function's consumer group once nobody is in it.
func (s *Service) deleteGroup(ctx context.Context, f *function) error {
	if s.d.Streams.Hops == schemas.HopsCore {
		return nil
	}
	return s.d.Conn.DeleteConsumer(ctx, s.d.Streams.Expert(f.layer).Name, f.spec.Id)
}
