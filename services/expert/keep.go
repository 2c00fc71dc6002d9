package expert

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/process/notify"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// keepRetry is the pause before something that has failed is tried again.
const keepRetry = 500 * time.Millisecond

// kick lets a function's keeper look at what is wanted; s.mu is held.
func (s *Service) kick(f *function) {
	notify.Send(f.wake)
	if !f.running && !s.stopped {
		f.running = true
		s.keepers.Go(func() { s.keep(f) })
	}
}

// keep makes a function what is wanted of it, until it is, or is gone.
//
//nolint:contextcheck,nolintlint // a function outlives whoever wants something of it
func (s *Service) keep(f *function) {
	for {
		ctx, cancel := context.WithCancel(s.ctx)
		wait, err := s.step(ctx, cancel, f)
		cancel()
		if err != nil && s.ctx.Err() == nil {
			s.d.Logger.Debug("function not served; trying again", "function", f.spec.Id, "layer", f.layer, "error", err)
		}
		if !s.rest(f, wait) {
			return
		}
	}
}

// rest waits until there is something to do again; false when the keeper ends.
func (s *Service) rest(f *function, wait time.Duration) (again bool) {
	if wait == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-f.wake:
			again = s.ctx.Err() == nil
		default:
		}
		f.running = again
		return again
	}
	select {
	case <-f.wake:
	case <-time.After(wait):
	case <-s.ctx.Done():
	}
	return s.goesOn(f)
}

// goesOn says whether the host does.
func (s *Service) goesOn(f *function) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.running = s.ctx.Err() == nil
	return f.running
}

// step does what is wanted of a function now. A wait is when to try again.
func (s *Service) step(ctx context.Context, cancel context.CancelFunc, f *function) (wait time.Duration, err error) {
	s.mu.Lock()
	f.interrupt = cancel
	want, drop, evicted, loads, joined := f.want, f.drop, f.evict != stays, f.loads(), f.receiving != nil
	s.mu.Unlock()
	switch {
	case want == nothing && drop:
		s.dismiss(f)
		return 0, nil
	case want == nothing:
		return 0, nil
	case f.cannot != nil:
		s.unable(f, f.cannot)
		return 0, nil
	case evicted:
		return s.vacate(f), nil
	case loads:
		if err := s.warm(ctx, f); err != nil {
			return s.notWarm(ctx, f, err), err
		}
	}
	if want == kept && joined && drop {
		s.leave(f)
	} else if want != kept && !joined {
		if err := s.join(ctx, f); err != nil {
			return keepRetry, err
		}
	}
	return 0, nil
}

// warm loads a function's experts. After an error it has none.
func (s *Service) warm(ctx context.Context, f *function) error {
	s.mu.Lock()
	priority := f.urgency()
	if f.state.Phase != isWarm && f.state.Phase != isRefused {
		s.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isWarming, Joined: f.receiving != nil, Reason: f.state.Reason})
	}
	s.mu.Unlock()
	if f.experts == nil {
		if err := s.reserve(f); err != nil {
			return err
		}
		if err := s.turn(f); err != nil {
			return err
		}
		f.load(s.ctx, s.device, priority) //nolint:contextcheck // a load outlives the step that asked for it
		s.hasRoom(f)
	}
	if err := f.loaded(ctx); err != nil {
		if ctx.Err() == nil {
			f.release(s.device)
		}
		return err
	}
	f.roomless = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.want == kept || f.receiving != nil {
		s.warmedUp(f)
	}
	return nil
}

// warmedUp says that a function computes what comes; s.mu is held.
func (s *Service) warmedUp(f *function) {
	s.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isWarm, Joined: f.receiving != nil})
	s.started(f)
	f.endWaits()
}

// endWaits lets the dispatches go on that wait for a function; s.mu is held.
func (f *function) endWaits() {
	f.demanded = false
	select {
	case <-f.warmed:
	default:
		close(f.warmed)
	}
}

// say sets a function's state and tells the others; s.mu is held.
func (s *Service) say(f *function, state *pb.FunctionState) {
	f.state = state
	s.announce(f.layer)
}

// join begins to take a function's rows.
func (s *Service) join(ctx context.Context, f *function) error {
	inFlight := inFlightShared
	s.mu.Lock()
	if f.alone {
		inFlight = inFlightAlone
	}
	s.mu.Unlock()
	f.grouped = true
	receiving, err := s.network.join(ctx, f, inFlight, func(ctx context.Context, m *bus.Msg) error { return s.receive(ctx, m, f) })
	if err != nil {
		return fmt.Errorf("joining the group: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.receiving = receiving
	if f.experts != nil {
		s.warmedUp(f)
	} else {
		s.say(f, &pb.FunctionState{Id: f.spec.Id, Phase: isCold, Joined: true})
	}
	return nil
}

// leave ends taking rows; the experts stay.
func (s *Service) leave(f *function) {
	s.mu.Lock()
	receiving := f.receiving
	f.receiving, f.drop = nil, false
	s.warmedUp(f)
	s.mu.Unlock()
	s.drain(f, receiving)
}
