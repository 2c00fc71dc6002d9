package queue

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// earlier takes in sequences of schemas.EarlierVersion (isEarlier).
type earlier struct {
	log    *tokenlog.Log
	checks *checks
}

// adopt makes a sequence of that version one of this, with the acceptance that its log has.
func (e *earlier) adopt(ctx context.Context, a *arrival) error {
	accept, err := e.log.OpenedBy(ctx, a.msg.RequestId, a.msg.Identity)
	if errors.Is(err, tokenlog.ErrUnknown) {
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	if err != nil {
		return err
	}
	a.msg.Accept = proto.CloneOf(accept)
	if e.log.Ours(a.msg.Identity) {
		a.msg.Identity = &pb.Identity{Version: schemas.Version, Model: e.checks.identity.Model}
	}
	if err := e.checks.check(a.msg, a.delivered); err != nil {
		return err
	}
	a.begun, err = e.log.Begun(ctx, a.msg.RequestId)
	return err
}
