package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// reception lets sequences that were pulled wait, or settles them.
type reception struct {
	conn     *bus.Conn
	log      *tokenlog.Log
	keeper   *renewal.Keeper
	siblings *members.Siblings
	checks   *checks
	capacity *capacity
	settler  *settler
	waiting  *waiting
	tasks    *sync.WaitGroup
}

// receive lets a sequence that was pulled wait for its turn; false: it is none. What takes
// questions to others is found out beside what was pulled with it.
func (r *reception) receive(ctx context.Context, d *bus.Delivery) (readable bool) {
	a := &arrival{
		hold: r.keeper.Keep(d), bytes: len(d.Data), delivered: d.Delivered, place: d.Sequence, stored: d.Timestamp, away: r.conn.Gap(),
	}
	err := r.conn.Try(d.Subject, func() error { return r.checks.read(d, a) })
	if bus.IsPanic(err) && a.msg != nil {
		err = &refusedError{a.msg, internal, err}
	}
	switch {
	case err != nil:
		r.tasks.Go(func() { r.turnAway(ctx, a, err) })
	case d.Delivered == 1 && r.capacity.fits(a.msg):
		r.waiting.join(a)
	default:
		r.tasks.Go(func() { r.lookInto(ctx, a) })
	}
	return !errors.Is(err, errUnreadable)
}

// lookInto lets a sequence wait that may have begun, or that may be too large here.
func (r *reception) lookInto(ctx context.Context, a *arrival) {
	err := r.leave(a)
	if err == nil {
		err = r.capacity.check(ctx, a.msg, a.delivered)
	}
	if err == nil && a.delivered > 1 {
		a.begun, err = r.log.Begun(ctx, a.msg.RequestId)
	}
	if err != nil {
		r.turnAway(ctx, a, err)
		return
	}
	r.waiting.join(a)
}

func (r *reception) turnAway(ctx context.Context, a *arrival, why error) {
	r.waiting.pass()
	r.settler.settle(ctx, a.hold, why)
}

// maxLeft is from how many deliveries on a sequence is left to nobody, whatever is told.
const maxLeft = 32

// leave leaves a sequence that came again to the sibling that has it: claiming it would
// have all of it computed once more.
func (r *reception) leave(a *arrival) error {
	if a.delivered == 1 || a.delivered > maxLeft {
		return nil
	}
	if after := r.siblings.Leave(a.place, time.Now()); after > 0 {
		return bus.RetryAfter(after, errTheirs)
	}
	return nil
}

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

// largerWithin is how long a sequence that only a replica that is gone could
// hold waits for one to come back.
const largerWithin = 10 * time.Second

// capacity reports whether this replica, or a live one, has the pages for a sequence.
type capacity struct {
	pages   *kvcache.Pool
	members Members
	model   uint64
	within  time.Duration // largerWithin but in tests
}

// check leaves a sequence that this replica can never hold to a live one
// that can. When there is none for a while, it is refused: the tokenizer took
// it in when there was one.
func (c *capacity) check(ctx context.Context, seq *pb.Sequence, delivered int) error {
	if c.fits(seq) {
		return nil
	}
	need := c.pages.Need(edge.Positions(seq))
	largest, ok := c.awaitLarger(ctx, need)
	switch {
	case ok:
		return toSibling(delivered)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &refusedError{seq, "model_not_ready", fmt.Errorf(
		"the request needs %d KV pages, and the largest live attention replica has %d: ask for fewer tokens, or start a replica with more --kv-memory",
		need, int(largest))}
}

func (c *capacity) fits(seq *pb.Sequence) bool {
	return c.pages.Need(edge.Positions(seq)) <= c.pages.Capacity()
}

// awaitLarger waits for a live replica with as many pages; largest is what the
// largest has that is there.
func (c *capacity) awaitLarger(ctx context.Context, need int) (largest float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	c.members.Follow(ctx, func(all []*pb.Member) {
		if largest = members.LargestKV(all, c.model); largest >= float64(need) {
			ok = true
			cancel()
		}
	})
	return max(largest, float64(c.pages.Capacity())), ok
}
