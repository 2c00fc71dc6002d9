package intake

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
)

// foreignPause leaves a prompt to those that have accepted it, longer each time that it
// comes back, and lastForeignPause at most.
const foreignPause, lastForeignPause = 100 * time.Millisecond, 2 * time.Second

// open opens a request's log, unless replicas of another kind have, and some are here.
func (s *common) open(ctx context.Context, in *incoming, accept *pb.Accept) (existing *pb.Accept, err error) {
	request := in.prompt.RequestId
	existing, err = s.log.Accept(ctx, request, accept)
	var theirs *tokenlog.KindError
	switch {
	case !errors.As(err, &theirs):
		return existing, err
	case s.delivery.Kinds.Here(theirs.Identity):
		return nil, bus.Elsewhere(min(foreignPause*time.Duration(in.delivered), lastForeignPause), err)
	}
	return s.log.AcceptAnew(ctx, request, accept)
}

// unlessTaken refuses a request if it is new. One that was accepted before is
// not, however its prompt comes again; and one that was delivered before may be
// in another replica's hands.
func (s *common) unlessTaken(ctx context.Context, in *incoming, refused error) error {
	if refused == nil || in.again() {
		return nil
	}
	_, err := s.log.Last(ctx, in.prompt.RequestId)
	if errors.Is(err, tokenlog.ErrUnknown) {
		return refused
	}
	return err
}

// endUntaken handles a prompt that is not to be taken any more, as when its
// deadline has passed: a request that was accepted before has its answer, or is
// ended by us if it never got further; else why is what is told to its producer.
func (s *common) endUntaken(ctx context.Context, in *incoming, hash []byte, why error) error {
	existing, err := s.log.Opening(ctx, in.prompt.RequestId)
	switch {
	case errors.Is(err, tokenlog.ErrUnknown):
		return why
	case err != nil:
		return err
	case !tokenlog.SameOpening(existing, &pb.Accept{PromptSequence: in.sequence, BodyHash: hash}):
		return s.repeat(ctx, in, existing, hash)
	}
	return s.end(ctx, in.prompt.RequestId, &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)})
}

// end ends a request unless it has ended.
func (s *common) end(ctx context.Context, request string, end *pb.Terminal) error {
	err := s.log.Finish(ctx, request, end)
	if errors.Is(err, tokenlog.ErrFinished) {
		return nil
	}
	return err
}

// repeat answers a request id that is in use: the same request is streamed
// again, another one is refused. A copy of the same ask is nothing new.
func (s *common) repeat(ctx context.Context, in *incoming, existing *pb.Accept, hash []byte) error {
	switch {
	case in.ask != "" && existing.Ask == in.ask && existing.PromptSequence == 0:
		return s.end(ctx, in.prompt.RequestId, s.notStored(bus.ErrAckLost)) // it was withdrawn
	case in.ask != "" && existing.Ask == in.ask:
		return nil
	case !bytes.Equal(existing.BodyHash, hash) || schemas.FlowOf(existing).Tenant != in.flow.Tenant:
		return edge.Errorf(edge.BadRequest, "request_id %q was used within the last %v (--log-age) for another prompt; choose a new one", in.prompt.RequestId, s.d.Streams.Tokens().MaxAge)
	}
	if in.reply != "" {
		s.delivery.Replays.Again(in.flow.Tenant, in.prompt.RequestId, in.destination(), in.ask != "") //nolint:contextcheck // it outlives the prompt's handling
	}
	return nil
}

// refuse tells the producer, or, where it cannot be told, the readers of the
// subject of rejected prompts.
func (s *common) refuse(in *incoming, cause *edge.Error) error {
	to := in.destination()
	to.From = 0
	if to.Subject == "" {
		to = s.rejected(s.d.Subjects.Model)
	}
	return s.delivery.Sender.Deliver(to, edge.Refusal(admission.UsableID(in.prompt.GetRequestId()), admission.RetryLater(cause)))
}

// notStored is the end of an ask that was withdrawn.
func (s *common) notStored(cause error) *pb.Terminal {
	return &pb.Terminal{FinishReason: "error", Error: edge.Proto(s.refusalOf(cause))}
}

func (s *common) refusalOf(err error) *edge.Error {
	var large *bus.TooLargeError
	switch {
	case errors.As(err, &large):
		return edge.Errorf(edge.PayloadTooLarge, "%v", large)
	case bus.IsHeaderTooLarge(err):
		return edge.Errorf(edge.PayloadTooLarge, "the headers are larger than 64 KiB")
	case bus.IsFull(err):
		return edge.Errorf(edge.Overloaded, "too many prompts wait already")
	}
	s.d.Logger.Warn("a prompt could not be stored", "error", err)
	return edge.Errorf(edge.Internal, "the prompt could not be stored; the tokenizer's log says why")
}

// rejected is where errors go that cannot be told to a producer.
func (s *common) rejected(model string) delivery.Destination {
	subject := schemas.NewSubjects(s.d.Subjects.Prefix, model).Rejected()
	return delivery.Destination{Subject: subject, Origin: delivery.Rejected, Encoding: pb.Encoding_ENCODING_JSON}
}

// count counts a refusal.
func (s *common) count(refused *edge.Error) {
	s.metrics.Outcome(string(refused.Code)).Inc()
	s.presence.Add(members.Refused, 1)
}
