package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrAccepted says that replicas of this kind have accepted a request since replicas of
// another one did: it is theirs to end.
var ErrAccepted = errors.New("the request has been accepted again")

// KindError says that replicas of another version or model have accepted a request, and
// none of this one.
type KindError struct {
	Request  string
	Identity *pb.Identity
}

func (e *KindError) Error() string {
	return fmt.Sprintf("request_id %q was accepted by replicas of another kind (schema version %d, model %016x)",
		e.Request, e.Identity.GetVersion(), e.Identity.GetModel())
}

// foreigners is a KindError where one says how a log is.
func (c *Chain) foreigners(request string) error {
	if id := c.Foreign(); id != nil {
		return &KindError{request, id}
	}
	return nil
}

// unreadable says why a log that was read so far is none that can be read: its
// acceptance is another kind's, or gone.
func (c *Chain) unreadable(request string) error {
	if err := c.foreigners(request); err != nil {
		return err // also of what has ended: their end follows their acceptance
	}
	if c.accept == nil && (c.broken != nil || c.end != nil) {
		return fmt.Errorf("%w: %s has no acceptance", ErrNotWhole, request)
	}
	return nil
}

// EndForeign ends a request that replicas of another version or model have accepted, so
// that its producer hears of it from those who are here. Whether it has ended is judged
// as they would; then it is opened again as lost, by an acceptance of this kind.
func (l *Log) EndForeign(ctx context.Context, request string, opened *pb.Accept, t *pb.Terminal) error {
	theirs, err := l.readAs(ctx, request, rulesOf(opened.GetIdentity()), math.MaxUint64, 0)
	switch {
	case err == nil && theirs.chain.end != nil:
		return fmt.Errorf("%w: %s", ErrFinished, request)
	case err != nil && !errors.Is(err, ErrUnknown):
		return err
	}
	return l.endIf(ctx, request, l.adopt(opened), t, func(h *history) error {
		if a := h.chain.accept; a != nil && !a.Lost {
			return fmt.Errorf("%w: %s", ErrAccepted, request)
		}
		return nil
	})
}

// rulesOf returns those of another kind, as far as they are known here.
func rulesOf(id *pb.Identity) Rules {
	return Rules{Model: id.GetModel(), Version: id.GetVersion(), Vocab: math.MaxInt32, Positions: math.MaxInt32, Hidden: math.MaxInt32}
}

// adopt makes an acceptance one of this kind that asks for nothing: its sizes may be
// none that this model has.
func (l *Log) adopt(opened *pb.Accept) *pb.Accept {
	own := proto.CloneOf(opened)
	own.Identity = &pb.Identity{Version: schemas.Version, Model: l.s.Rules.Model}
	own.PromptTokens, own.MaxTokens, own.LogBytes, own.Fill, own.FilledIds, own.Sequence = 0, 0, 0, nil, nil, nil
	return own
}
