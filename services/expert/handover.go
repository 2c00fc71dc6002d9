package expert

import (
	"context"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// handoverWithin bounds the wait for other hosts to take over.
	handoverWithin = 5 * time.Second
	handoverPoll   = 20 * time.Millisecond
)

// Handover lets a host that leaves serve on until others have taken over: the planner
// makes a plan without the host, others load its experts, and the gates switch.
type Handover struct {
	Presence  Presence
	Functions Functions
	Members   Members
}

// Presence is the host as the members see it; a *deployment.Presence is.
type Presence interface{ Drain() }

// Functions are the host's; a *residency.Residency is.
type Functions interface {
	RestNoMore()
	Any() bool
}

// Members are those that are seen; a *members.View is.
type Members interface{ Snapshot() []*pb.Member }

// Run says that the host leaves, and returns when no gate sends here any more, nobody else can
// do its work, five seconds are over, or ctx ends.
func (h Handover) Run(ctx context.Context) {
	h.Presence.Drain()
	h.Functions.RestNoMore()
	limit := time.After(handoverWithin)
	tick := time.NewTicker(handoverPoll)
	defer tick.Stop()
	for h.needed(h.Members.Snapshot()) {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-tick.C:
		}
	}
}

// needed reports whether a gate still sends here and will have another host to send to.
func (h Handover) needed(all []*pb.Member) bool {
	others := slices.ContainsFunc(members.OfService(all, "expert"), func(m *pb.Member) bool { return !m.Draining })
	return h.Functions.Any() && others && len(members.OfService(all, "gate")) > 0
}
