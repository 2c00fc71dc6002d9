package attention

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

// isEarlier says whether a sequence is of schemas.EarlierVersion: those have no acceptance.
func isEarlier(m *pb.Sequence) bool {
	return m.GetIdentity().GetVersion() == schemas.EarlierVersion && m.Accept == nil
}

// inherit lets a sequence of that version wait for its turn.
func (s *Service) inherit(ctx context.Context, a *arrival) {
	if err := s.adopt(ctx, a); err != nil {
		s.turnAway(ctx, a, err)
		return
	}
	s.lookInto(ctx, a)
}

// adopt makes a sequence of that version one of this, with the acceptance that its log has.
func (s *Service) adopt(ctx context.Context, a *arrival) error {
	accept, err := s.log.OpenedBy(ctx, a.msg.RequestId, a.msg.Identity)
	if errors.Is(err, tokenlog.ErrUnknown) {
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	if err != nil {
		return err
	}
	a.msg.Accept = proto.CloneOf(accept)
	if s.log.Ours(a.msg.Identity) {
		a.msg.Identity = &pb.Identity{Version: schemas.Version, Model: s.d.Identity.Model}
	}
	if err := s.check(a.msg, a.delivered); err != nil {
		return err
	}
	a.begun, err = s.log.Begun(ctx, a.msg.RequestId)
	return err
}
