package tokenizer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/edge"
	"github.com/switchyard/switchyard/pkg/telemetry"
	"github.com/switchyard/switchyard/pkg/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// intake takes prompts until ctx ends.
func (s *Service) intake(ctx context.Context) {
	for {
		deliveries, err := s.prompts.Pull(ctx, promptsAtOnce)
		if err != nil {
			return // stopped
		}
		for _, d := range deliveries {
			s.takeFirst(ctx, d)
		}
	}
}

// takeFirst returns after the first attempt at taking a prompt; others go on
// beside the prompts behind it, and the delivery is kept meanwhile.
func (s *Service) takeFirst(ctx context.Context, d *bus.Delivery) {
	tried := make(chan struct{})
	once := sync.OnceFunc(func() { close(tried) })
	s.tasks.Go(func() {
		err := d.Work(ctx, func() error {
			defer once()
			return s.untilTaken(s.takePrompt(d.Context(ctx), d))
		})
		if err != nil {
			s.d.Logger.Debug("settling a prompt", "error", err)
		}
	})
	<-tried
}

// promptRetry is the pause before a prompt whose taking failed comes again.
const promptRetry = 500 * time.Millisecond

// untilTaken lets a prompt come again as often as it takes: it was accepted, so
// that it must end in an answer or in an error that its producer sees.
func (s *Service) untilTaken(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err // the latter: this replica stops, and a sibling takes it at once
	}
	s.d.Logger.Warn("a prompt was not taken; it will come again", "error", err)
	return bus.RetryAfter(promptRetry, err)
}

// takePrompt makes a prompt a sequence, or tells its producer why not. An
// error means that the prompt is to be tried again.
func (s *Service) takePrompt(ctx context.Context, d *bus.Delivery) error {
	ctx, root := s.tracer.Start(ctx, telemetry.SpanPrompt)
	defer root.End()
	p, err := s.readPrompt(d)
	if err == nil {
		root.SetAttributes(telemetry.AttrRequest.String(p.prompt.RequestId))
		err = s.process(ctx, d, p)
	}
	var refused *edge.Error
	if errors.As(err, &refused) {
		s.metrics.Outcome(string(refused.Code)).Inc()
		s.presence.Add("refused_total", 1)
		return s.refuse(ctx, p, refused)
	}
	return err
}

// process admits a prompt, or ends one that would break every replica in turn.
func (s *Service) process(ctx context.Context, d *bus.Delivery, p *incoming) error {
	if d.TooOften() {
		return s.giveUp(ctx, p, fmt.Sprintf("the prompt was given up: %d replicas that had it went away", d.Delivered-1))
	}
	err := s.d.Conn.Try(d.Subject, func() error {
		if err := s.checkQueue(ctx, p.prompt.RequestId); err != nil {
			return err
		}
		return s.admit(ctx, p)
	})
	if bus.IsPanic(err) {
		return s.giveUp(ctx, p, "the prompt was given up: the service has a fault that it meets")
	}
	return err
}

// giveUp ends a prompt as an error of ours.
func (s *Service) giveUp(ctx context.Context, p *incoming, why string) error {
	hash, err := edge.BodyHash(p.prompt)
	if err != nil {
		return err
	}
	return s.endUntaken(ctx, p, hash, edge.Errorf(edge.Internal, "%s", why))
}

// incoming is a prompt with where its answer goes.
type incoming struct {
	prompt      *pb.Prompt
	encoding    pb.Encoding
	reply       string // "": nowhere, or nowhere usable
	interactive bool
	sequence    uint64 // in PROMPTS
	arrived     time.Time
}

// Headers that ask sets when it hands a request to the durable path.
const headerAsk = "Switchyard-Ask"

func (s *Service) readPrompt(d *bus.Delivery) (*incoming, error) {
	ask := d.Headers.Get(headerAsk)
	prompt, encoding, err := edge.DecodePrompt(d.Headers, d.Data, ask == askText)
	if ask == askText {
		encoding = pb.Encoding_ENCODING_TEXT
	}
	in := &incoming{prompt: prompt, encoding: encoding, interactive: ask != "", sequence: d.Sequence, arrived: d.Timestamp}
	reply := d.Headers.Get(schemas.HeaderReplyTo)
	if reply == "" && prompt != nil {
		reply = prompt.ReplyTo
	}
	if reply != "" {
		if bad := s.d.Subjects.CheckReplyTo(reply); bad != nil {
			return in, edge.Errorf(edge.BadRequest, "%v", bad)
		}
		in.reply = reply
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
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", s.d.Subjects.Model, in.sequence, in.arrived.UnixNano()))
	in.prompt.RequestId = hex.EncodeToString(sum[:10])
	return nil
}

// admit opens the request's log and hands its sequence to attention.
func (s *Service) admit(ctx context.Context, in *incoming) error {
	ctx, span := s.tracer.Child(ctx, telemetry.SpanTokenize)
	defer span.End()
	hash, err := edge.BodyHash(in.prompt)
	if err != nil {
		return err
	}
	req, err := s.model.Resolve(in.prompt, time.Now(), rand.Uint32())
	if isLate(err) {
		return s.endUntaken(ctx, in, hash, err)
	}
	if err != nil {
		return err
	}
	accept := s.acceptance(ctx, in, req, hash)
	_, existing, err := s.log.Accept(ctx, in.prompt.RequestId, accept)
	switch {
	case bus.IsFull(err):
		return edge.Errorf(edge.Overloaded, "the token log is full")
	case err != nil:
		return fmt.Errorf("opening the token log: %w", err)
	case existing == nil:
	case existing.PromptSequence == in.sequence:
		req.Sequence.Sampling.Seed = existing.Seed // our own prompt again: go on with it
	default:
		return s.repeat(in, existing, hash)
	}
	return s.submit(ctx, in, req.Sequence, req.Deadline)
}

// deadlineGrace is how long an attention replica has to end a late request itself.
const deadlineGrace = 600 * time.Millisecond

// guardDeadline ends a request that waits for attention past its deadline. An
// attention replica that has it, or gets it later, sees to that itself.
func (s *Service) guardDeadline(request string, left time.Duration) {
	if left == 0 {
		return
	}
	s.tasks.Go(func() {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(left + deadlineGrace):
		}
		late := edge.Errorf(edge.DeadlineExceeded, "the deadline passed while the request waited")
		_, err := s.log.Finish(s.ctx, request, &pb.Terminal{FinishReason: "error", Error: edge.Proto(late)})
		if err != nil && !errors.Is(err, tokenlog.ErrFinished) && s.ctx.Err() == nil {
			s.d.Logger.Warn("ending a late request", "request", request, "error", err)
		}
	})
}

func isLate(err error) bool {
	var refused *edge.Error
	return errors.As(err, &refused) && refused.Code == edge.DeadlineExceeded
}

// endUntaken handles a prompt that is not to be taken any more, as when its
// deadline has passed: a request that was accepted before has its answer, or is
// ended by us if it never got further; else why is what is told to its producer.
func (s *Service) endUntaken(ctx context.Context, in *incoming, hash []byte, why error) error {
	existing, err := s.log.Opening(ctx, in.prompt.RequestId)
	switch {
	case errors.Is(err, tokenlog.ErrUnknown):
		return why
	case err != nil:
		return err
	case existing.PromptSequence != in.sequence:
		return s.repeat(in, existing, hash)
	}
	_, err = s.log.Finish(ctx, in.prompt.RequestId, &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)})
	if errors.Is(err, tokenlog.ErrFinished) {
		return nil
	}
	return err
}

func (s *Service) acceptance(ctx context.Context, in *incoming, req *edge.Request, hash []byte) *pb.Accept {
	header := nats.Header{}
	telemetry.Propagator{}.Inject(ctx, header)
	return &pb.Accept{
		Identity: s.identity(), BodyHash: hash, PromptSequence: in.sequence, ReplyTo: in.reply,
		Encoding: in.encoding, FromIndex: in.prompt.FromIndex, Stop: req.Stop,
		PromptTokens: int32(len(req.Sequence.PromptIds)), Seed: req.Sequence.Sampling.Seed,
		DeadlineMs: uint32(req.Deadline.Milliseconds()), Interactive: in.interactive,
		MaxTokens: req.Sequence.MaxTokens, Traceparent: first(header["traceparent"]),
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (s *Service) identity() *pb.Identity {
	return &pb.Identity{Version: schemas.Version, Model: s.d.Identity.Model}
}

func (s *Service) submit(ctx context.Context, in *incoming, seq *pb.Sequence, left time.Duration) error {
	seq.Identity = s.identity()
	// Within the stream's window a redelivered prompt gives no second sequence;
	// beyond it the token log has only one owner all the same.
	header := nats.Header{nats.MsgIdHdr: {in.prompt.RequestId}}
	if _, err := s.d.Conn.Store(ctx, s.d.Subjects.Sequence(), seq, header); err != nil {
		if bus.IsFull(err) {
			return s.turnAway(ctx, in.prompt.RequestId)
		}
		return fmt.Errorf("handing the sequence to attention: %w", err)
	}
	s.backlog.add()
	s.guardDeadline(in.prompt.RequestId, left)
	s.metrics.PromptTokens().Add(float64(len(seq.PromptIds)))
	s.presence.Add("requests_total", 1)
	s.presence.Add("prompt_tokens_total", float64(len(seq.PromptIds)))
	return nil
}

// turnAway ends a request whose log is open already: who reads the log is told.
func (s *Service) turnAway(ctx context.Context, request string) error {
	_, err := s.log.Finish(ctx, request, &pb.Terminal{FinishReason: "error", Error: &pb.Error{
		Code: string(edge.Overloaded), Message: "too many requests wait already", RetryAfter: overloadPause.Seconds(),
	}})
	if errors.Is(err, tokenlog.ErrFinished) {
		return nil
	}
	return err
}

// repeat answers a request id that is in use: the same request is streamed
// again, another one is refused.
func (s *Service) repeat(in *incoming, existing *pb.Accept, hash []byte) error {
	if !bytes.Equal(existing.BodyHash, hash) {
		return edge.Errorf(edge.BadRequest, "request_id %q was used within the hour for another prompt; choose a new one", in.prompt.RequestId)
	}
	if in.reply != "" {
		s.replay(in.prompt.RequestId, destination{
			subject: in.reply, encoding: in.encoding, from: in.prompt.FromIndex, interactive: in.interactive,
		})
	}
	return nil
}

// refuse tells the producer, or, where it cannot be told, whoever watches the
// subject of rejected prompts.
func (s *Service) refuse(ctx context.Context, in *incoming, cause *edge.Error) error {
	if cause.Code == edge.Overloaded {
		cause.RetryAfter = overloadPause
	}
	subject, encoding := in.reply, in.encoding
	if subject == "" {
		subject, encoding = s.d.Subjects.Rejected(), pb.Encoding_ENCODING_JSON
	}
	return s.deliver(ctx, destination{subject: subject, encoding: encoding}, edge.Refusal(in.prompt.GetRequestId(), cause))
}

// overloadPause is how long an overloaded producer should wait.
const overloadPause = 2 * time.Second
