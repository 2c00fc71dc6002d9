package intake

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Prompts are taken from their queue, each to become a sequence or a refusal.
type Prompts struct {
	*common
	queue    *bus.Queue
	inHand   *members.Holdings
	siblings *members.Siblings
	isolation
}

func newPrompts(c *common) *Prompts {
	return &Prompts{common: c, inHand: members.NewHoldings(), isolation: isolation{trials: c.d.Trials, self: c.replica}}
}

const (
	// ackWait is when another replica takes over a prompt that no sibling has given
	// back: its owner was the last, or had not told of it.
	ackWait = 1500 * time.Millisecond
	// promptsAtOnce bounds the prompts that a replica takes at once.
	promptsAtOnce = 16
)

// openQueue opens the queue, from which nothing is taken yet.
func (s *Prompts) openQueue(ctx context.Context) (err error) {
	s.queue, err = s.d.Conn.Queue(ctx, bus.QueueSettings{
		Stream: s.d.Streams.Prompts(), Name: probe.PromptGroup, AckWait: ackWait,
		Dead: s.d.Subjects.Dead("prompt"), Replica: s.replica,
	})
	if err != nil {
		return fmt.Errorf("taking prompts: %w", err)
	}
	s.siblings = s.presence.Siblings(s.queue, s.inHand)
	return nil
}

// OnHoldings hears which prompts a sibling has in hand.
func (s *Prompts) OnHoldings(m *nats.Msg) { s.siblings.OnTold(m) }

// Run takes prompts until ctx ends.
func (s *Prompts) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.take(ctx) })
	running.Go(func() { s.siblings.Run(ctx) })
}

// take takes prompts until ctx ends, several at once.
func (s *Prompts) take(ctx context.Context) {
	free, line := newSlots(promptsAtOnce), newSequencer()
	for {
		n := free.take(ctx)
		if n == 0 {
			return // stopped
		}
		deliveries, err := s.queue.Pull(ctx, n)
		if err != nil {
			return // stopped
		}
		free.give(n - len(deliveries))
		s.tellTaken(deliveries)
		for _, d := range deliveries {
			_, flow, _ := s.d.Subjects.ParsePrompt(d.Subject)
			at := line.enter(flow.Tenant)
			tried := sync.OnceFunc(func() { at.leave(); free.give(1) })
			s.tasks.Go(func() { s.settle(ctx, d, at, tried) })
		}
	}
}

// tellTaken has siblings know what was pulled before any of it is handled.
func (s *Prompts) tellTaken(deliveries []*bus.Delivery) {
	for _, d := range deliveries {
		s.inHand.Add(d.AckSubject())
	}
	s.siblings.Tell() // what is not told waits for ackWait
}

// settle takes a prompt in and tells the queue what became of it. After the
// first attempt, others go on beside the prompts behind it.
func (s *Prompts) settle(ctx context.Context, d *bus.Delivery, at *place, tried func()) {
	defer tried()
	defer s.inHand.Remove(d.AckSubject())
	err := d.Work(ctx, func() error {
		defer tried()
		return s.untilTaken(s.takePrompt(traced(ctx, d.Headers, s.secret, s.d.Edge.NATS().AuthRequired()), d, at))
	})
	if err != nil {
		s.d.Logger.Debug("settling a prompt", "error", err)
	}
}

// traced has a prompt be in the trace that its headers name. Where there are users, gateways alone may name
// one: else a producer has everything traced, or nothing.
func traced(ctx context.Context, h nats.Header, secret string, users bool) context.Context {
	traceparent := first(h["traceparent"])
	if traceparent == "" || users && !hmac.Equal([]byte(h.Get(schemas.HeaderSeal)), []byte(schemas.Seal(secret, "traceparent", traceparent))) {
		return ctx
	}
	return telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": {traceparent}})
}

// promptRetry is the pause before a prompt whose taking failed comes again.
const promptRetry = 500 * time.Millisecond

// untilTaken lets a prompt come again as often as it takes: it was accepted, so
// that it must end in an answer or in an error that its producer sees.
func (s *Prompts) untilTaken(err error) error {
	if err == nil || bus.IsGivenUp(err) || bus.IsElsewhere(err) || errors.Is(err, context.Canceled) {
		return err // the last: this replica stops, and a sibling takes it at once
	}
	s.d.Logger.Warn("a prompt was not taken; it will come again", "error", err)
	return bus.RetryAfter(promptRetry, err)
}

// takePrompt makes a prompt a sequence, or tells its producer why not. An
// error means that the prompt is to be tried again.
func (s *Prompts) takePrompt(ctx context.Context, d *bus.Delivery, at *place) error {
	if d.Delivered > 1 { // those behind it do not wait for its trial
		at.leave()
	}
	if err := s.try(ctx, d); err != nil {
		return err
	}
	ctx, root := s.tracer.Start(ctx, telemetry.SpanPrompt)
	defer root.End()
	p, err := s.read(ctx, d)
	if p == nil && err != nil && !bus.IsPanic(err) {
		return err // this replica stops
	}
	if bus.IsPanic(err) {
		return s.giveUpUnread(d, bus.Panicked, "the prompt was given up: the service has a fault that it meets")
	}
	if err == nil {
		root.SetAttributes(telemetry.AttrRequest.String(p.prompt.RequestId))
		return s.toldIfRefused(p, s.process(ctx, d, p, at))
	}
	told := s.toldIfRefused(p, err)
	if told == nil && p.reply == "" {
		return bus.Poison(err) // none was told but the readers of rejected prompts
	}
	return told
}

// toldIfRefused tells a prompt's producer of a refusal; all other errors remain.
func (s *Prompts) toldIfRefused(p *incoming, err error) error {
	var refused *edge.Error
	switch {
	case !errors.As(err, &refused) || bus.IsGivenUp(err):
		return err
	case p.flow.IsCanary() && p.reply == "": // with one it is a producer's
		s.probe.Canaries.Failed(p.prompt.GetRequestId(), refused.Error())
		return nil
	default:
		s.count(refused)
		return s.refuse(p, refused)
	}
}

// process admits a prompt when it is its turn, or ends one that would break
// every replica in turn.
func (s *Prompts) process(ctx context.Context, d *bus.Delivery, p *incoming, at *place) error {
	if err := at.await(ctx, p.prompt.RequestId); err != nil {
		return err
	}
	if d.Delivered > maxDeliveries {
		return s.giveUp(ctx, p, bus.Deliveries, fmt.Sprintf("the prompt was given up: %d replicas that had it went away", d.Delivered-1))
	}
	err := s.d.Conn.Try(d.Subject, func() error { return s.judge(ctx, p) })
	if bus.IsPanic(err) {
		return s.giveUp(ctx, p, bus.Panicked, "the prompt was given up: the service has a fault that it meets")
	}
	return err
}

// judge admits a prompt unless others go before it for too long, or its tenant has
// as much as it may. It counts as waiting meanwhile: many are judged at once.
func (s *Prompts) judge(ctx context.Context, p *incoming) error {
	if p.flow.IsCanary() {
		return s.admit(ctx, p)
	}
	if s.admission.Enter(p.request()) {
		defer func() { s.admission.Leave(p.request(), p.followed) }()
	}
	r := p.request()
	r.OwnExperts = s.model.HasOwnExperts(p.prompt)
	if err := s.unlessTaken(ctx, p, s.admission.CheckQueue(ctx, r)); err != nil {
		return err
	}
	return s.admit(ctx, p)
}

// giveUp ends a prompt as an error of ours, and leaves it to the dead letters.
func (s *Prompts) giveUp(ctx context.Context, p *incoming, reason bus.Reason, why string) error {
	hash, err := edge.BodyHash(p.prompt)
	if err != nil {
		return err
	}
	cause := edge.Errorf(edge.Internal, "%s", why)
	if err := s.toldIfRefused(p, s.endUntaken(ctx, p, hash, cause)); err != nil {
		return err
	}
	return bus.GiveUp(reason, cause)
}

// slots counts free places.
type slots chan struct{}

func newSlots(n int) slots {
	r := make(slots, n)
	r.give(n)
	return r
}

func (r slots) give(n int) {
	for range n {
		r <- struct{}{}
	}
}

// take waits for a free place and takes all there are; 0: ctx has ended.
func (r slots) take(ctx context.Context) (n int) {
	select {
	case <-r:
	case <-ctx.Done():
		return 0
	}
	for n = 1; ; n++ {
		select {
		case <-r:
		default:
			return n
		}
	}
}
