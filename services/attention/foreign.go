package attention

import (
	"context"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A sequence of another version or model was accepted by replicas of that kind, as
// before an upgrade. It goes back to them while one is here; else its producer is told.

// foreignError says that a sequence is of another kind.
type foreignError struct {
	seq       *pb.Sequence
	delivered int
	error
}

// Unwrap is how the sequence differs.
func (f *foreignError) Unwrap() error { return f.error }

const (
	// kinPoll is how often replicas of a sequence's kind are looked for.
	kinPoll = members.Interval / 4
	// foreignAtOnce bounds the sequences that wait for them.
	foreignAtOnce = 64
)

// settleForeign gives a sequence back to its kind, or ends it.
func (s *Service) settleForeign(ctx context.Context, f *foreignError) error {
	select {
	case s.foreign <- struct{}{}:
		defer func() { <-s.foreign }()
	default:
		return bus.RetryAfter(maxElsewherePause, errElsewhere)
	}
	if s.awaitKin(ctx, f.seq.GetIdentity()) {
		return toSibling(f.delivered)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.d.Logger.Warn("a sequence is ended that replicas of another kind have accepted: none of them is here", "request", f.seq.RequestId, "error", f.error)
	why := fmt.Sprintf("the request was accepted by replicas of another kind, and none of them is here: %v; send it again", f.error)
	return s.log.EndForeign(ctx, f.seq.RequestId, f.seq.Accept, errorEnd("model_not_ready", why))
}

// awaitKin waits for a live attention replica that takes sequences of such an identity.
func (s *Service) awaitKin(ctx context.Context, id *pb.Identity) bool {
	ctx, cancel := context.WithTimeout(ctx, s.largerWithin)
	defer cancel()
	kin := func(m *pb.Member) bool {
		return m.GetService() == "attention" && usable(m) && schemas.KindOf(m).Made(id.GetVersion(), id.GetModel())
	}
	for !slices.ContainsFunc(s.view.Strangers(), kin) {
		if pause.For(ctx, kinPoll) != nil {
			return false
		}
	}
	return true
}
