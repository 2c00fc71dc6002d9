package expert

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// retireEvery is how often retired functions are looked at.
	retireEvery = time.Second
	// drainWithin bounds the end of a function's last dispatches.
	drainWithin = 5 * time.Second
)

// retire lets functions go that no gate sends to any more, and what has rested for
// long, until ctx ends.
func (s *Service) retire(ctx context.Context) {
	tick := time.NewTicker(retireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.dropRetired(s.view.Snapshot())
			s.expire(time.Now())
		}
	}
}

// dropRetired lets the retired functions go whose successors every gate uses.
func (s *Service) dropRetired(all []*pb.Member) {
	gates := members.OfService(all, "gate")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		if f.want != nothing && f.want != kept || f.drop || f.receiving == nil {
			continue
		}
		behind := func(gate *pb.Member) bool { return s.network.Acknowledged(gate.Id, f.layer) < f.retiredBy }
		if !slices.ContainsFunc(gates, behind) && (!s.planned(f) || s.servedElsewhere(f, all)) {
			f.drop = true
			s.kick(f)
		}
	}
}

// planned says whether the layer's plan wants a function on whatever host; s.mu is held.
func (s *Service) planned(f *function) bool {
	p := s.plans[f.layer].Function(f.spec.Id)
	return p != nil && slices.ContainsFunc(p.Placements, func(p *pb.Placement) bool { return p.Want != kept })
}

// servedElsewhere says whether another live host takes what comes to a function that has moved.
func (s *Service) servedElsewhere(f *function, all []*pb.Member) bool {
	return slices.ContainsFunc(s.network.Replicas(f.layer, f.spec.Id), func(r functions.Replica) bool {
		live := slices.ContainsFunc(all, func(m *pb.Member) bool { return m.Id == r.Host && !m.Draining })
		return r.Host != s.id && r.Serves() && live
	})
}

// dismiss ends a function that is to be dropped: it finishes what it has, removes
// its group if nobody is to have it, and rests; or it frees experts that are not
// used here any more. If it is wanted again meanwhile, it begins anew.
func (s *Service) dismiss(f *function) {
	s.mu.Lock()
	receiving, warm := f.receiving, f.state.Phase == isWarm
	f.receiving = nil
	if receiving != nil {
		s.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isDraining, Joined: true})
	}
	f.endWaits()
	f.warmed = make(chan struct{})
	s.mu.Unlock()
	if receiving != nil {
		s.drain(f, receiving)
	}
	s.removeGroup(f)
	if warm && s.lay(f) {
		return
	}
	f.release(s.device)
	s.forget(f, warm)
}

// forget is the end of a function that has nothing any more.
func (s *Service) forget(f *function, warm bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if warm {
		s.metrics.Hosts.Evicted(string(cmp.Or(f.evict, expired)))
	}
	f.drop, f.roused, f.evict, f.start = false, false, stays, nil
	f.state = &pb.FunctionState{Id: f.spec.Id, Phase: isCold}
	if f.want != nothing {
		s.kick(f)
	} else if s.functions[f.spec.Id] == f {
		delete(s.functions, f.spec.Id)
	}
	s.retryRefused()
	s.announce(f.layer)
}

// drain finishes what a function has taken.
//
//nolint:contextcheck,nolintlint // what was taken is finished, also when nobody waits for it
func (s *Service) drain(f *function, receiving group) {
	ctx, cancel := context.WithTimeout(s.ctx, drainWithin)
	defer cancel()
	if err := receiving.Drain(ctx); err != nil {
		s.d.Logger.Warn("function did not drain", "function", f.spec.Id, "error", err)
	}
}

// removeGroup removes a function's group if the plan has it on no host: else
// another one may be in it. Also one that the host only meant to join may be there.
//
//nolint:contextcheck,nolintlint // a group is removed, also when nobody waits for it
func (s *Service) removeGroup(f *function) {
	s.mu.Lock()
	planned := s.plans[f.layer].Function(f.spec.Id) != nil
	s.mu.Unlock()
	if planned || !f.grouped {
		return
	}
	f.grouped = false
	ctx, cancel := context.WithTimeout(s.ctx, drainWithin)
	defer cancel()
	if err := s.network.remove(ctx, f); err != nil {
		s.d.Logger.Debug("removing a consumer group", "function", f.spec.Id, "error", err)
	}
}

// drainAll finishes what the host has taken in all functions, and frees all experts.
func (s *Service) drainAll(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.stop()
	s.keepers.Wait()
	var errs []error
	if s.own != nil {
		errs = append(errs, s.own.Drain(ctx)) // before the lock, which its handlers take
	}
	s.waiters.Wait()                // they end with their receiving
	for _, f := range s.functions { // nobody else is left who changes them
		if f.receiving != nil {
			errs = append(errs, f.receiving.Drain(ctx))
		}
		f.release(s.device)
	}
	s.closeDevice()
	return errors.Join(errs...)
}
