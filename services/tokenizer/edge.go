package tokenizer

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What producers send without JetStream comes by a connection of its own, the edge, on which
// nothing else does: whatever they send, and however much, it holds up no record of a log, no
// lease and no sign of life. On a server with users the edge is in the producers' account, where
// services are not; tokenizers alone hear what is sent there, each message one of them, and
// pass on to the services what they need to know.

// listenAtEdge opens what producers reach without JetStream.
func (s *Service) listenAtEdge() error {
	err := s.offer("ask", endpointGroup, s.d.Subjects.Asks(), "text or JSON in, a stream of chunks out", s.onAsk)
	if err != nil {
		return err
	}
	if err := s.offer("replay", s.replayGroup(), []string{s.d.Subjects.Replay()}, "the chunks of a request again, from an index on", s.onReplay); err != nil {
		return err
	}
	if err := s.subscribe(s.d.Subjects.AnyCancel(), s.replayGroup(), s.onCancel); err != nil {
		return err
	}
	if err := s.subscribe(s.d.Subjects.AnyProbe(s.id), "", s.onProbe); err != nil {
		return err
	}
	return s.guard()
}

// subscribe listens at the edge.
func (s *Service) subscribe(subject, group string, handle nats.MsgHandler) error {
	return s.subscribeAt(s.edge, subject, group, handle)
}

func (s *Service) subscribeAt(conn *bus.Conn, subject, group string, handle nats.MsgHandler) error {
	return s.keep(conn.Subscribe(subject, group, func(m *nats.Msg) {
		if bus.Cut(m) { // nobody whom we serve sends so many headers
			s.metrics.Refused.Inc()
			s.refuseCut(m)
			return
		}
		handle(m)
	}))
}

// heardAtEdge returns when the server has the subscriptions. What it denies there mostly
// means that the user is none of the producers' account.
func (s *Service) heardAtEdge(ctx context.Context) error {
	err := s.edge.Listening(ctx, "listening to producers")
	if err == nil && s.d.Guard != nil {
		err = s.d.Guard.Listening(ctx, "listening for models that no replica serves")
	}
	if bus.IsDenied(err) {
		err = fmt.Errorf("%w; a server with users has one for this, tokenizer-edge: give its credentials with --edge-creds, or its NATS context with --edge-nats", err)
	}
	return err
}

// onCancel passes on that a producer wants a request no more. What the message says beside
// the id does not matter: it comes from outside.
func (s *Service) onCancel(m *nats.Msg) {
	request := schemas.LastToken(m.Subject)
	if err := schemas.CheckRequestID(request); err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not cancelling a request", "error", err)
		return
	}
	s.cancel(request)
}

// refuseCut tells who asked with too many headers, if that can be told.
func (s *Service) refuseCut(m *nats.Msg) {
	to := destination{subject: m.Reply, origin: inbox, encoding: pb.Encoding_ENCODING_JSON}
	if m.Reply != "" && s.answerable(to) {
		s.tell(to, edge.Refusal("", edge.Errorf(edge.PayloadTooLarge, "the headers are more than are read: 64 lines, 64 KiB")))
	}
}
