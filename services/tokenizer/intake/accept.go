package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// admit opens the request's log and hands its sequence to attention.
func (s *Prompts) admit(ctx context.Context, in *incoming) error {
	ctx, span := s.tracer.Child(ctx, telemetry.SpanTokenize)
	defer span.End()
	req, why := s.resolve(ctx, in)
	if why == nil {
		s.fitDefault(in.prompt, req.Sequence)
		why = s.checkCapacity(req.Sequence)
	} else if !isLate(why) {
		return why
	}
	hash, err := edge.BodyHash(in.prompt)
	switch {
	case err != nil:
		return err
	case why != nil:
		return s.endUntaken(ctx, in, hash, why)
	}
	if err := s.checkSizes(req.Sequence, in.encoding); err != nil {
		return err
	}
	accept := s.acceptance(ctx, in, req, hash)
	if err := s.findRoom(ctx, in, req.Sequence, accept); err != nil {
		return err
	}
	existing, err := s.open(ctx, in, accept)
	switch {
	case err != nil:
		return notOpened(in, err)
	case existing == nil:
		s.accepted(in, accept)
	case tokenlog.SameOpening(existing, accept):
		accept = existing // our own prompt again: go on with it
		req.Sequence.Sampling.Seed = existing.Seed
	default:
		return s.repeat(ctx, in, existing, hash)
	}
	if s.delivery.Endings.Cancelled(in.flow.Tenant, in.prompt.RequestId) {
		return s.end(ctx, in.prompt.RequestId, &pb.Terminal{FinishReason: "cancelled"})
	}
	req.Sequence.Accept = brief(accept)
	return s.submit(ctx, in, req.Sequence, req.Deadline)
}

// notOpened is what a producer is told of a log that cannot be opened, or why to try again.
func notOpened(in *incoming, err error) error {
	var large *bus.TooLargeError
	switch {
	case bus.IsFull(err) && !in.again():
		return edge.Errorf(edge.Overloaded, "the token log is full")
	case errors.As(err, &large):
		return edge.Errorf(edge.PayloadTooLarge, "what the token log keeps of the request is too large: %v", large)
	case errors.Is(err, tokenlog.ErrNotWhole), errors.Is(err, tokenlog.ErrNoisy):
		return edge.Errorf(edge.BadRequest, "request_id %q was used before, and its answer cannot be read here; choose a new one", in.prompt.RequestId)
	}
	return fmt.Errorf("opening the token log: %w", err) // Elsewhere's, too
}

// resolve tokenizes a prompt: beside others, or alone if it was delivered before.
func (s *Prompts) resolve(ctx context.Context, in *incoming) (*edge.Request, error) {
	leave, err := s.decoding.enter(ctx, tokenizedBytes(in.prompt))
	if err != nil {
		return nil, err
	}
	defer leave()
	if in.again() {
		s.computing.Lock()
		defer s.computing.Unlock()
	} else {
		defer s.beside()()
	}
	req, err := s.model.Resolve(in.prompt, s.probe.Streams.Clock.Now(), rand.Uint32())
	if err == nil && in.flow.IsCanary() {
		req.Deadline = probe.CanaryWithin
	}
	return req, err
}

// findRoom refuses a request that would begin too late, or whose log has no room.
func (s *Prompts) findRoom(ctx context.Context, in *incoming, seq *pb.Sequence, accept *pb.Accept) error {
	if !in.flow.IsCanary() {
		if err := s.unlessTaken(ctx, in, s.admission.CheckForecast(in.request(), accept)); err != nil {
			return err
		}
	}
	return s.unlessTaken(ctx, in, s.admission.Reserve(in.request(), int64(accept.LogBytes), packedBytes(seq, s.scored())+s.fateBytes(seq)))
}

// accepted counts a request whose log was opened here, before its shard's owner
// sees it.
func (s *Prompts) accepted(in *incoming, accept *pb.Accept) {
	s.admission.Accepted(in.request(), accept)
	if s.delivery.Shards.Owns(in.prompt.RequestId) {
		in.followed = admission.AnnouncedWithin
	}
}

// upgradeTime is when a producer may ask again for what an earlier release does not know.
const upgradeTime = 10 * time.Second

// fitDefault lets a request that does not say how long its answer may be have what the largest
// attention replica can hold.
func (s *Prompts) fitDefault(p *pb.Prompt, seq *pb.Sequence) {
	largest := members.LargestKV(s.members.Snapshot(), s.d.Identity.Model)
	if p.MaxTokens != nil || largest == 0 || len(seq.Fill) > 0 || seq.MaxTokens == 0 {
		return
	}
	shape, most := kvcache.ShapeOf(&s.d.Model.Spec), int(seq.MaxTokens)
	shape.Rows = 1 // as in checkCapacity
	tooMany := sort.Search(most, func(n int) bool {
		return float64(shape.Need(edge.Positions(&pb.Sequence{PromptIds: seq.PromptIds, Source: seq.Source, MaxTokens: int32(n + 1)}))) > largest
	})
	seq.MaxTokens = int32(max(1, tooMany))
}

// checkCapacity refuses what no live attention replica can hold.
func (s *Prompts) checkCapacity(seq *pb.Sequence) error {
	all := s.members.Snapshot()
	if level := edge.SamplingOf(seq); !members.Samples(all, s.d.Identity.Model, level) {
		return &edge.Error{Code: edge.ModelNotReady, RetryAfter: upgradeTime, Message: "the request asks for sampling that an attention replica of an earlier release here does not know: ask again when all are upgraded, or leave out min_p, min_tokens, logit_bias, presence_penalty, frequency_penalty"}
	}
	if longest := members.LongestContext(all, s.d.Identity.Model); longest > 0 && float64(edge.Positions(seq)) > longest {
		return edge.Errorf(edge.BadRequest, "%d prompt and %d new tokens do not fit the longest context of an attention replica, %.0f: ask for fewer, or give all services the same --max-model-len",
			len(seq.PromptIds), seq.MaxTokens, longest)
	}
	shape := kvcache.ShapeOf(&s.d.Model.Spec)
	shape.Rows = 1 // at least; how many a replica computes at once is its own affair
	need := shape.Need(edge.Positions(seq))
	largest := members.LargestKV(all, s.d.Identity.Model)
	if largest == 0 || float64(need) <= largest {
		return nil // 0: none has said; the one that takes it will
	}
	return edge.Errorf(edge.BadRequest, "%d prompt and %d new tokens need %d KV pages; the largest attention replica has %.0f: ask for fewer, or raise its --kv-memory",
		len(seq.PromptIds), seq.MaxTokens, need, largest)
}

func isLate(err error) bool {
	var refused *edge.Error
	return errors.As(err, &refused) && refused.Code == edge.DeadlineExceeded
}

// acceptance is what opens the log of a request.
func (s *Prompts) acceptance(ctx context.Context, in *incoming, req *edge.Request, hash []byte) *pb.Accept {
	header := nats.Header{}
	telemetry.Propagator{}.Inject(ctx, header)
	accept := &pb.Accept{
		Identity: s.delivery.Kinds.Identity(), BodyHash: hash, PromptSequence: in.sequence, ReplyTo: in.reply,
		Encoding: in.encoding, FromIndex: in.prompt.FromIndex, Stop: req.Stop,
		PromptTokens: int32(len(req.Sequence.PromptIds)), Seed: req.Sequence.Sampling.Seed,
		DeadlineMs: uint32(req.Deadline.Milliseconds()), Interactive: in.ask != "", Ask: in.ask,
		Tenant: in.flow.Tenant, Class: string(in.flow.Class), Weight: s.admission.Weight(in.flow.Tenant),
		Arrived: in.arrived.UnixNano(), MixedClasses: s.d.Mixed(),
		MaxTokens: req.Sequence.MaxTokens, MinTokens: req.Sequence.Sampling.MinTokens, Parse: req.Parse, Traceparent: first(header["traceparent"]),
		LogBytes: uint64(logBytes(s.d.Streams.Subjects.Token(in.prompt.RequestId), req.Sequence, s.scored()) + s.fateBytes(req.Sequence)),
		Sequence: asked(req.Sequence), NumericClass: s.d.Kind().NumericClass, Wire: s.d.Kind().Wire,
	}
	if len(req.Sequence.Fill) > 0 {
		accept.FilledIds, accept.Fill = req.Sequence.PromptIds, req.Sequence.Fill
	}
	return accept
}

// asked is what a log keeps of a sequence, so that it can be computed again.
func asked(seq *pb.Sequence) *pb.Sequence {
	kept := proto.CloneOf(seq)
	kept.Identity, kept.RequestId, kept.Accept = nil, "", nil
	return kept
}

// brief is an acceptance without what the sequence that carries it has itself.
func brief(a *pb.Accept) *pb.Accept {
	b := proto.CloneOf(a)
	b.Sequence = nil
	return b
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (s *Prompts) submit(ctx context.Context, in *incoming, seq *pb.Sequence, left time.Duration) error {
	seq.Identity = s.delivery.Kinds.Identity()
	// Within the stream's window a redelivered prompt gives no second sequence;
	// beyond it the token log has only one owner all the same.
	header := nats.Header{nats.MsgIdHdr: {in.prompt.RequestId}}
	message, err := s.d.Conn.Store(ctx, s.d.Subjects.Sequence(), seq, header)
	if err != nil {
		var large *bus.TooLargeError
		switch {
		case bus.IsFull(err):
			return s.turnAway(ctx, in.prompt.RequestId, edge.Errorf(edge.Overloaded, "too many requests wait already"))
		case errors.As(err, &large):
			return s.turnAway(ctx, in.prompt.RequestId, edge.Errorf(edge.PayloadTooLarge, "the tokens of the prompt: %v", large))
		}
		return fmt.Errorf("handing the sequence to attention: %w", err)
	}
	s.delivery.Endings.EndOverdue(in.prompt.RequestId, left)
	if in.flow.IsCanary() {
		return nil
	}
	s.probe.Sequences.Add(message)
	s.metrics.PromptTokens().Add(float64(len(seq.PromptIds)))
	s.presence.Add(members.Requests, 1)
	s.presence.Add("prompt_tokens_total", float64(len(seq.PromptIds)))
	return nil
}

// turnAway ends a request whose log is open already: its readers are told.
func (s *Prompts) turnAway(ctx context.Context, request string, why error) error {
	return s.end(ctx, request, &pb.Terminal{FinishReason: "error", Error: edge.Proto(admission.RetryLater(why))})
}
