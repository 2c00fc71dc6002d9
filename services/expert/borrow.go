package expert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows that come to a host by name may be of a function that it does not have: the
// hosts that have it have lost them. The host borrows the function then, if it has
// room: it loads and joins it as one that is wanted cold here, and lets go of it when
// nobody needs it, or when a newer plan says who has it. Rows wait meanwhile. What
// it cannot compute it declines, so that its owner asks somebody else at once.

const (
	// waitAtOnce bounds the dispatches by name that wait for functions.
	waitAtOnce = 64
	// waitByName is how long one does: attention asks others too by then.
	waitByName = 10 * time.Second
)

// errDeclined begins the reasons for which others are to compute rows.
var errDeclined = errors.New("this host does not have the function")

// byName is one dispatch that was sent to this host.
type byName struct {
	d       *pb.Dispatch
	arrived time.Time
	took    *pb.FunctionTime
	watch   ledger.Stopwatch
}

// receiveByName computes what was sent to this host, if it has the function or can have it.
func (s *Service) receiveByName(ctx context.Context, r byName) error {
	if err := s.d.Shape.CheckKey(r.d.Key); err != nil {
		s.metrics.Refused.Inc()
		return wire.Refuse(ctx, s.d.Hop, s.d.Subjects, r.d.Key, fmt.Errorf("%s: %w", s.id, err))
	}
	f, warm, err := s.named(int(r.d.Key.Layer), r.d.Function)
	switch {
	case err != nil:
		return s.decline(ctx, r.d, err)
	case warm:
		return s.serve(ctx, f, r.d, r.arrived, r.took, r.watch)
	}
	return s.await(ctx, f, r)
}

// named is a function that is warm here, or that is to become so from now on.
func (s *Service) named(layer int, id string) (f *function, warm bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f = s.functions[id]; {
	case f == nil:
		f, err = s.borrow(layer, id)
		return f, false, err
	case f.state.Phase == isWarm:
		return f, true, nil
	case f.want == nothing, f.state.Phase == isRefused:
		return nil, false, fmt.Errorf("%w: it is %s", errDeclined, phaseOf(f.state))
	}
	s.rouseLocked(f)
	return f, false, nil
}

// borrow wants a function of the layer's plan here that is planned elsewhere; s.mu is held.
func (s *Service) borrow(layer int, id string) (*function, error) {
	spec := s.plans[layer].Function(id)
	switch {
	case s.stopped || s.leaving:
		return nil, fmt.Errorf("%w: it is leaving", errDeclined)
	case spec == nil:
		return nil, fmt.Errorf("%w: the newest plan of layer %d has no function %.64q", errDeclined, layer, id)
	}
	f := s.newFunction(layer, spec)
	if f.cannot != nil {
		return nil, fmt.Errorf("%w: %w", errDeclined, f.cannot)
	}
	if need, room := s.needs(f, false); s.device.Memory().Budget > 0 && need > room {
		return nil, fmt.Errorf("%w: it takes %d bytes, and there is room for %d", errDeclined, need, room)
	}
	f.want, f.borrowed, f.unused = cold, true, time.Now()
	s.functions[id] = f
	s.rouseLocked(f)
	s.d.Logger.Info("a function is loaded whose own hosts lose rows", "function", id, "layer", layer)
	return f, nil
}

// giveBack ends that a function is borrowed, if it is; s.mu is held.
func (s *Service) giveBack(f *function) {
	if f.borrowed {
		s.retireFunction(f, s.plans[f.layer].Version)
	}
}

// await computes a dispatch when its function is warm, beside those that come after it.
func (s *Service) await(ctx context.Context, f *function, r byName) error {
	select {
	case s.awaiting <- struct{}{}:
	default:
		return s.decline(ctx, r.d, fmt.Errorf("%w: %d dispatches wait for functions", errDeclined, waitAtOnce))
	}
	s.waiters.Go(func() {
		defer func() { <-s.awaiting }()
		defer s.d.Conn.Recover(s.d.Subjects.Host(s.id))
		waiting, stop := context.WithTimeout(ctx, waitByName)
		defer stop()
		if err := s.serve(waiting, f, r.d, r.arrived, r.took, r.watch); err != nil && !errors.Is(err, wire.ErrLate) {
			_ = s.decline(ctx, r.d, err) // attention asks again anyway
		}
	})
	return nil
}

// decline tells the owner of rows that somebody else is to compute them.
func (s *Service) decline(ctx context.Context, d *pb.Dispatch, reason error) error {
	s.presence.Add("dispatches_not_warm_total", 1)
	return wire.Decline(ctx, s.d.Hop, s.d.Subjects, d.Key, reason)
}
