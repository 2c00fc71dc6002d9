package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Tokenizers of another version or model may be here, as when they were suspended while
// this one came. Each kind delivers what it has accepted: it has leases of the shards and
// a queue group for replays of its own, and leaves what is theirs to the others. Prompts
// are one queue: one that was theirs before goes back to it.

// foreignPause leaves a prompt to those who have accepted it, longer each time that it
// comes back, and lastForeignPause at most.
const foreignPause, lastForeignPause = 100 * time.Millisecond, 2 * time.Second

// open opens a request's log, unless replicas of another kind have, and some are here.
func (s *Service) open(ctx context.Context, in *incoming, accept *pb.Accept) (existing *pb.Accept, err error) {
	request := in.prompt.RequestId
	existing, err = s.log.Accept(ctx, request, accept)
	var theirs *tokenlog.KindError
	switch {
	case !errors.As(err, &theirs):
		return existing, err
	case s.kinHere(theirs.Identity):
		return nil, bus.Elsewhere(min(foreignPause*time.Duration(in.delivered), lastForeignPause), err)
	}
	return s.log.AcceptAnew(ctx, request, accept)
}

// kinHere says whether there may be a live replica of those that accept under an identity.
func (s *Service) kinHere(id *pb.Identity) bool {
	return !s.view.Synced() || slices.ContainsFunc(s.view.Strangers(), func(m *pb.Member) bool {
		return schemas.KindOf(m).Made(id.GetVersion(), id.GetModel())
	})
}

// foreigner says whether a replica cannot read what is accepted here. Such a one hears of
// each replay before it knows whose that is.
func (s *Service) foreigner(replica string) bool {
	return slices.ContainsFunc(s.view.Strangers(), func(m *pb.Member) bool {
		return m.Id == replica && !schemas.KindOf(m).Made(schemas.Version, s.d.Identity.Model)
	})
}

// refuseForeign tells a reader that nobody can read him a log; while some of its kind are
// here, one of them does.
func (s *Service) refuseForeign(to destination, e *tokenlog.KindError) {
	if s.kinHere(e.Identity) {
		return
	}
	s.refuseReplay(to, e.Request, edge.Errorf(edge.ModelNotReady, "%v, and none of them is here; send it again under another id", e))
}

// replayGroup is the queue group in which tokenizers of one kind share replays.
func (s *Service) replayGroup() string {
	return fmt.Sprintf("%s-v%d-%016x", endpointGroup, schemas.Version, s.d.Identity.Model)
}
