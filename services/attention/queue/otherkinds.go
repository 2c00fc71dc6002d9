package queue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// A sequence of another version or model was accepted by replicas of that kind, as
// before an upgrade. It goes back to them while one is here; else its producer is told.

const (
	// kinPoll is how often replicas of a sequence's kind are looked for.
	kinPoll = members.Interval / 4
	// foreignAtOnce bounds the sequences that wait for them.
	foreignAtOnce = 64
)

// kin are live replicas of a sequence's kind.
type kin struct {
	log     *tokenlog.Log
	logger  *slog.Logger
	members Members
	foreign chan struct{} // one for each sequence of another kind that waits for them
	within  time.Duration // largerWithin but in tests
}

func newKin(s Settings) *kin {
	return &kin{log: s.Log, logger: s.Deployment.Logger, members: s.Members, foreign: make(chan struct{}, foreignAtOnce), within: largerWithin}
}

// settle gives a sequence back to its kind, or ends it.
func (k *kin) settle(ctx context.Context, f *foreignError) error {
	select {
	case k.foreign <- struct{}{}:
		defer func() { <-k.foreign }()
	default:
		return bus.RetryAfter(maxElsewherePause, errElsewhere)
	}
	if k.await(ctx, f.seq.GetIdentity()) {
		return toSibling(f.delivered)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	k.logger.Warn("a sequence is ended that replicas of another kind have accepted: none of them is here", "request", f.seq.RequestId, "error", f.error)
	why := fmt.Sprintf("the request was accepted by replicas of another kind, and none of them is here: %v; send it again", f.error)
	return k.log.EndForeign(ctx, f.seq.RequestId, f.seq.Accept, engine.ErrorEnd("model_not_ready", why))
}

// await waits for a live attention replica that takes sequences of such an identity.
func (k *kin) await(ctx context.Context, id *pb.Identity) bool {
	ctx, cancel := context.WithTimeout(ctx, k.within)
	defer cancel()
	serves := func(m *pb.Member) bool {
		return m.GetService() == "attention" && members.Serves(m) && schemas.KindOf(m).Made(id.GetVersion(), id.GetModel())
	}
	for !slices.ContainsFunc(k.members.OtherKinds(), serves) {
		if pause.For(ctx, kinPoll) != nil {
			return false
		}
	}
	return true
}
