package tokenizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// intake takes prompts until ctx ends, several at once.
func (s *Service) intake(ctx context.Context) {
	room, line := newRoom(promptsAtOnce), newTurns()
	for {
		n := room.take(ctx)
		if n == 0 {
			return // stopped
		}
		deliveries, err := s.prompts.Pull(ctx, n)
		if err != nil {
			return // stopped
		}
		room.give(n - len(deliveries))
		s.tellTaken(deliveries)
		for _, d := range deliveries {
			_, flow, _ := s.d.Subjects.ParsePrompt(d.Subject)
			place := line.enter(flow.Tenant)
			tried := sync.OnceFunc(func() { place.leave(); room.give(1) })
			s.tasks.Go(func() { s.settle(ctx, d, place, tried) })
		}
	}
}

// tellTaken has siblings know what was pulled before any of it is handled.
func (s *Service) tellTaken(deliveries []*bus.Delivery) {
	for _, d := range deliveries {
		s.inHand.Add(d.AckSubject())
	}
	s.siblings.Tell() // what is not told waits for promptAckWait
}

// room counts free places.
type room chan struct{}

func newRoom(n int) room {
	r := make(room, n)
	r.give(n)
	return r
}

func (r room) give(n int) {
	for range n {
		r <- struct{}{}
	}
}

// take waits for a free place and takes all there are; 0: ctx has ended.
func (r room) take(ctx context.Context) (n int) {
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

// settle takes a prompt in and tells the queue what became of it. After the
// first attempt, others go on beside the prompts behind it.
func (s *Service) settle(ctx context.Context, d *bus.Delivery, place *turn, tried func()) {
	defer tried()
	defer s.inHand.Remove(d.AckSubject())
	err := d.Work(ctx, func() error {
		defer tried()
		return s.untilTaken(s.takePrompt(d.Context(ctx), d, place))
	})
	if err != nil {
		s.d.Logger.Debug("settling a prompt", "error", err)
	}
}

// promptRetry is the pause before a prompt whose taking failed comes again.
const promptRetry = 500 * time.Millisecond

// untilTaken lets a prompt come again as often as it takes: it was accepted, so
// that it must end in an answer or in an error that its producer sees.
func (s *Service) untilTaken(err error) error {
	if err == nil || bus.IsGivenUp(err) || bus.IsElsewhere(err) || errors.Is(err, context.Canceled) {
		return err // the last: this replica stops, and a sibling takes it at once
	}
	s.d.Logger.Warn("a prompt was not taken; it will come again", "error", err)
	return bus.RetryAfter(promptRetry, err)
}

// takePrompt makes a prompt a sequence, or tells its producer why not. An
// error means that the prompt is to be tried again.
func (s *Service) takePrompt(ctx context.Context, d *bus.Delivery, place *turn) error {
	if d.Delivered > 1 { // those behind it do not wait for its trial
		place.leave()
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
		return s.giveUpUnread(ctx, d, bus.Panicked, "the prompt was given up: the service has a fault that it meets")
	}
	if err == nil {
		root.SetAttributes(telemetry.AttrRequest.String(p.prompt.RequestId))
		return s.toldIfRefused(ctx, p, s.process(ctx, d, p, place))
	}
	told := s.toldIfRefused(ctx, p, err)
	if told == nil && p.reply == "" {
		return bus.Poison(err) // nobody was told but who watches rejected prompts
	}
	return told
}

// toldIfRefused tells a prompt's producer of a refusal; all other errors remain.
func (s *Service) toldIfRefused(ctx context.Context, p *incoming, err error) error {
	var refused *edge.Error
	switch {
	case !errors.As(err, &refused) || bus.IsGivenUp(err):
		return err
	case p.flow.IsCanary() && p.reply == "": // with one it is somebody else's
		s.probe.Canaries.Failed(p.prompt.GetRequestId(), refused.Error())
		return nil
	default:
		s.count(refused)
		return s.refuse(ctx, p, refused)
	}
}

// process admits a prompt when it is its turn, or ends one that would break
// every replica in turn.
func (s *Service) process(ctx context.Context, d *bus.Delivery, p *incoming, place *turn) error {
	if err := place.await(ctx, p.prompt.RequestId); err != nil {
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
func (s *Service) judge(ctx context.Context, p *incoming) error {
	if p.flow.IsCanary() {
		return s.admit(ctx, p)
	}
	if s.admission.Enter(p.request()) {
		defer func() { s.admission.Leave(p.request(), p.followed) }()
	}
	if err := s.unlessTaken(ctx, p, s.admission.CheckQueue(ctx, p.request())); err != nil {
		return err
	}
	return s.admit(ctx, p)
}

// giveUp ends a prompt as an error of ours, and leaves it to the dead letters.
func (s *Service) giveUp(ctx context.Context, p *incoming, reason bus.Reason, why string) error {
	hash, err := edge.BodyHash(p.prompt)
	if err != nil {
		return err
	}
	cause := edge.Errorf(edge.Internal, "%s", why)
	if err := s.toldIfRefused(ctx, p, s.endUntaken(ctx, p, hash, cause)); err != nil {
		return err
	}
	return bus.GiveUp(reason, cause)
}

// incoming is a prompt with where its answer goes.
type incoming struct {
	flow     schemas.Flow
	prompt   *pb.Prompt
	encoding pb.Encoding
	reply    string // "": nowhere, or nowhere usable
	ask      string // names the ask that it came by; "": it did not
	sequence uint64 // in PROMPTS
	arrived  time.Time
	// followed is within which time a shard served here has seen its acceptance; 0:
	// it has none, or another replica sees it.
	followed time.Duration
	// delivered is how often it was: another replica may have, or may still be about to,
	// take in what comes again.
	delivered int
}

// again says that it was delivered before.
func (in *incoming) again() bool { return in.delivered > 1 }

// request is what is admitted of it.
func (in *incoming) request() admission.Request {
	return admission.Request{ID: in.prompt.RequestId, Flow: in.flow}
}

// destination is where its answer goes.
func (in *incoming) destination() destination {
	to := destination{subject: in.reply, encoding: in.encoding, from: beginning(in.prompt.GetFromIndex()), tenant: in.flow.Tenant}
	if in.ask != "" {
		to.origin = inbox
	}
	return to
}

// checkFlow says why a prompt's subject is not for it. What would be a canary, but
// asks for more, would take from others without anybody counting it.
func checkFlow(in *incoming) error {
	p := in.prompt
	switch {
	case !in.flow.IsCanary():
		return in.flow.Check()
	case len(p.InputIds) != 1 || len(p.DecoderInputIds) > 1 || p.MaxTokens == nil || p.GetMaxTokens() > 1 || in.reply != "":
		return errors.New("the subject is the services' own, for requests of one token: name another tenant")
	}
	return nil
}

// read is readPrompt beside others, as many as there is memory for. A panic is an error.
func (s *Service) read(ctx context.Context, d *bus.Delivery) (in *incoming, err error) {
	if s.limits.CheckSize(len(d.Data)) == nil { // else it is not read
		leave, err := s.decoding.enter(ctx, decodedBytes(len(d.Data)))
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	s.computing.RLock()
	defer s.computing.RUnlock()
	err = s.d.Conn.Try(d.Subject, func() (err error) {
		in, err = s.readPrompt(d)
		return err
	})
	return in, err
}

func (s *Service) readPrompt(d *bus.Delivery) (*incoming, error) {
	ask := d.Headers.Get(schemas.HeaderAsk)
	prompt, encoding, err := s.limits.DecodePrompt(d.Headers, d.Data, ask == askText)
	if ask == askText {
		encoding = pb.Encoding_ENCODING_TEXT
	}
	_, flow, _ := s.d.Subjects.ParsePrompt(d.Subject)
	in := &incoming{flow: flow, prompt: prompt, encoding: encoding, sequence: d.Sequence, arrived: d.Timestamp, delivered: d.Delivered}
	if id := d.Headers.Get(nats.MsgIdHdr); ask != "" && schemas.CheckRequestID(id) == nil {
		in.ask = id
	}
	if in.reply = replyOf(d.Headers, prompt); in.reply != "" {
		if bad := s.mayReply(in.destination()); bad != nil {
			s.metrics.RefusedReplies.Inc()
			in.reply = ""
			return in, badRequest(bad)
		}
	}
	if err == nil {
		err = badRequest(checkFlow(in))
	}
	if err != nil {
		return in, err
	}
	return in, s.nameRequest(in)
}

// nameRequest checks the request's id, or makes one that a redelivery of the
// same prompt makes again.
func (s *Service) nameRequest(in *incoming) error {
	if in.prompt.RequestId != "" {
		if err := schemas.CheckRequestID(in.prompt.RequestId); err != nil {
			in.prompt.RequestId = ""
			return edge.Errorf(edge.BadRequest, "%v", err)
		}
		return nil
	}
	if in.ask != "" {
		in.prompt.RequestId = in.ask
		return nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", s.d.Subjects.Model, in.sequence, in.arrived.UnixNano()))
	in.prompt.RequestId = hex.EncodeToString(sum[:10])
	return nil
}
