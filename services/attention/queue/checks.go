package queue

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// checks say whether a message is a sequence of this replica's kind, as long as it may be.
type checks struct {
	identity wire.Identity
	limits   edge.Model         // what a sequence must keep
	refused  prometheus.Counter // sequences that do not
	members  Members
}

func newChecks(s Settings) *checks {
	d, spec := s.Deployment, &s.Deployment.Model.Spec
	return &checks{
		identity: d.Identity, refused: d.Telemetry.Metrics.Refused, members: s.Members,
		limits: edge.Model{Vocab: spec.Vocab, MaxLen: spec.LongestSequence(s.MaxModelLen), Task: spec.Task(), Types: spec.SourceTypes()},
	}
}

// read checks what a message says before anything follows from it.
func (c *checks) read(d *bus.Delivery, a *arrival) error {
	msg := &pb.Sequence{}
	if err := proto.Unmarshal(d.Data, msg); err != nil {
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	a.msg = msg
	if err := schemas.CheckRequestID(msg.RequestId); err != nil {
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	return c.check(msg, d.Delivered)
}

// check says why a sequence cannot be worked on here.
func (c *checks) check(msg *pb.Sequence, delivered int) error {
	if err := checkAcceptance(msg); err != nil {
		c.refused.Inc()
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	if err := c.identity.Check(msg.GetIdentity().GetVersion(), msg.GetIdentity().GetModel()); err != nil {
		return &foreignError{msg, delivered, err}
	}
	if err := c.checkLength(msg, delivered); err != nil {
		return err
	}
	if err := c.limits.CheckSequence(msg); err != nil {
		c.refused.Inc()
		return &refusedError{msg, internal, fmt.Errorf("sequence %s: %w", msg.RequestId, err)}
	}
	return nil
}

// checkLength leaves a sequence that is longer than --max-model-len lets it be here to a
// live replica of a longer one. Where there is none, CheckSequence refuses it.
func (c *checks) checkLength(seq *pb.Sequence, delivered int) error {
	need := edge.Positions(seq)
	if need > c.limits.MaxLen && members.LongestContext(c.members.Snapshot(), c.identity.Model) >= float64(need) {
		return toSibling(delivered)
	}
	return nil
}

// checkAcceptance refuses what nobody made who accepted it: it says nothing about any
// request and touches no log.
func checkAcceptance(m *pb.Sequence) error {
	if a := m.GetAccept(); int(a.GetPromptTokens()) != len(m.PromptIds) || a.GetMaxTokens() != m.MaxTokens {
		return errors.New("it does not carry its own acceptance")
	}
	if f := schemas.FlowOf(m.GetAccept()); !f.IsCanary() {
		return f.Check()
	}
	return nil
}
