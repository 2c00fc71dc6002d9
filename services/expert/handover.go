package expert

import (
	"context"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// handOverWithin bounds the wait for other hosts to take over.
	handOverWithin = 5 * time.Second
	handOverPoll   = 20 * time.Millisecond
)

// handOver serves on until no gate sends here any more: the planner makes a
// plan without this host, others load its experts, and the gates switch.
func (s *Service) handOver(ctx context.Context) {
	s.presence.Drain()
	s.leaveNothing()
	limit := time.After(handOverWithin)
	tick := time.NewTicker(handOverPoll)
	defer tick.Stop()
	for s.needed(s.view.Snapshot()) {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-tick.C:
		}
	}
}

// leaveNothing ends the rest of what rests, and lets nothing rest from now on.
func (s *Service) leaveNothing() {
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	s.expire(time.Now())
}

// needed says whether somebody still sends here who will have another host to
// send to.
func (s *Service) needed(all []*pb.Member) bool {
	s.mu.Lock()
	serves := len(s.functions) > 0
	s.mu.Unlock()
	return serves && slices.ContainsFunc(members.OfService(all, "expert"), func(m *pb.Member) bool { return !m.Draining }) && len(members.OfService(all, "gate")) > 0
}
