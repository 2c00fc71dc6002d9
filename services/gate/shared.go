package gate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// shared is what comes for any gate. Senders do not choose: whoever asks next has it, so that
// a gate is passed by only if it does not ask. What is sent to it by name it has all the same.
type shared struct {
	receive func(ctx context.Context) (*bus.Receiving, error)
	log     *slog.Logger

	mu    sync.Mutex
	from  *bus.Receiving // nil: it is left to others, and all that had arrived is handled
	ended bool           // no more comes, and what had arrived may not be handled
}

// take begins to receive, unless that has begun.
func (s *shared) take(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from != nil && !s.ended {
		return nil
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.from, err = s.receive(ctx)
	return err
}

// leave finishes what has arrived, and receives no more. After an error it may be called
// again: what was being handled may be done then.
func (s *shared) leave(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drain(ctx)
}

// drain is leave while s.mu is held.
func (s *shared) drain(ctx context.Context) error {
	if s.from == nil {
		return nil
	}
	s.ended = true
	if err := s.from.Drain(ctx); err != nil {
		return err
	}
	s.from, s.ended = nil, false
	return nil
}

// done reports whether nothing is to be done for what comes to be left to others, or taken.
func (s *shared) done(leaves bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && leaves == (s.from == nil)
}

// leaveWithin bounds how long what has arrived may take.
const leaveWithin = 5 * time.Second

// follow takes or leaves what comes for any gate, as leaves says, until ctx ends.
func (s *shared) follow(ctx context.Context, leaves func() bool) {
	tick := time.NewTicker(members.Interval)
	defer tick.Stop()
	for {
		s.look(ctx, leaves())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look does what is to be done; what fails is tried again.
func (s *shared) look(ctx context.Context, leaves bool) {
	if s.done(leaves) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	var err error
	if leaves {
		s.log.Warn("this gate's device throttles; rows for any gate are left to others for as long as it does")
		err = s.leave(ctx)
	} else if err = s.take(ctx); err == nil {
		s.log.Info("this gate routes rows for any gate again")
	}
	if err != nil {
		s.log.Warn("leaving rows for any gate to others, or taking them again", "error", err)
	}
}

// leaves reports whether a gate is to leave rows for any gate to others: its device throttles, and
// that of another one which is ready does not. It goes by its own word, too, as that came back:
// all gates hear all words in one order, so that of several that begin to throttle together one
// stays until it has heard the others.
func leaves(all []*pb.Member, self string) bool {
	throttles, others := false, false
	for _, m := range members.OfService(all, "gate") {
		hot := m.Stats[members.DeviceThrottled] > 0
		throttles = throttles || m.Id == self && hot
		others = others || m.Id != self && !hot && m.Ready && !m.Draining
	}
	return throttles && others
}
