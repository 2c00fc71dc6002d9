package intake

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
)

// Edge hears what producers send without JetStream. It comes by a connection of its own, on which
// nothing else does: whatever they send, and however much, it holds up no record of a log, no
// lease and no sign of life. On a server with users the edge is in the producers' account, where
// services are not; tokenizers alone hear what is sent there, each message one of them, and
// pass on to the services what they need to know.
type Edge struct {
	*common
	asks    *Asks
	tokens  *Tokenizing
	version string
	keep    func(*nats.Subscription, error) error
	guard   *guard
}

func newEdge(c *common, asks *Asks, tokens *Tokenizing, s Settings) *Edge {
	return &Edge{common: c, asks: asks, tokens: tokens, version: s.Version, keep: s.Keep, guard: &guard{common: c}}
}

// Listen opens what producers reach without JetStream.
func (s *Edge) Listen() error {
	err := s.offer("ask", delivery.EndpointGroup, s.d.Subjects.Asks(), "text or JSON in, a stream of chunks out", s.asks.OnAsk)
	if err != nil {
		return err
	}
	if err := s.offer("replay", s.delivery.Kinds.Group(), s.d.Subjects.Replays(), "the chunks of a request again, from an index on", s.delivery.Replays.OnReplay); err != nil {
		return err
	}
	if err := s.offer("tokenize", s.delivery.Kinds.Group(), []string{s.d.Subjects.Tokenize()}, "text or messages in, token ids out, and back", s.tokens.OnTokenize); err != nil {
		return err
	}
	for _, subject := range s.d.Subjects.AnyCancels() {
		if err := s.subscribe(subject, s.delivery.Kinds.Group(), s.onCancel); err != nil {
			return err
		}
	}
	if err := s.subscribe(s.d.Subjects.AnyForget(), s.delivery.Kinds.Group(), s.delivery.Endings.OnForget); err != nil {
		return err
	}
	if err := s.subscribe(s.d.Subjects.AnyProbe(s.replica), "", s.delivery.Replays.OnProbe); err != nil {
		return err
	}
	return s.listenForOthers()
}

// offer opens a service's subjects and its discovery; those that share work are in one group.
func (s *Edge) offer(name, group string, subjects []string, about string, handle nats.MsgHandler) error {
	e := &service{
		common: s.common, about: "model " + s.d.Subjects.Model + ": " + about, started: time.Now().UTC(), text: s.tokens.text,
		id: micro.ServiceIdentity{Name: s.d.Subjects.Prefix + "-" + name, ID: nuid.Next(), Version: s.version, Metadata: map[string]string{}},
	}
	for i, subject := range subjects {
		p := &endpoint{name: endpointNames[i], subject: subject, group: group, handle: handle}
		e.endpoints = append(e.endpoints, p)
		if err := s.subscribe(subject, group, p.onRequest); err != nil {
			return err
		}
	}
	return e.discover(s.subscribe)
}

// subscribe listens at the edge.
func (s *Edge) subscribe(subject, group string, handle nats.MsgHandler) error {
	return s.subscribeAt(s.d.Edge, subject, group, s.refuseCut, handle)
}

// subscribeAt calls cut with messages that have more headers than are read, and handle with the others.
func (s *Edge) subscribeAt(conn *bus.Conn, subject, group string, cut, handle nats.MsgHandler) error {
	return s.keep(conn.Subscribe(subject, group, func(m *nats.Msg) {
		if bus.Cut(m) { // no client sends so many headers
			cut(m)
			return
		}
		handle(m)
	}))
}

// Heard returns when the server has the subscriptions. What it denies there mostly
// means that the user is none of the producers' account.
func (s *Edge) Heard(ctx context.Context) error {
	err := s.d.Edge.Listening(ctx, "listening to producers")
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
func (s *Edge) onCancel(m *nats.Msg) {
	request := schemas.LastToken(m.Subject)
	if err := schemas.CheckRequestID(request); err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not cancelling a request", "error", err)
		return
	}
	if tenant := s.d.Subjects.TenantOf(m.Subject); tenant != "" {
		s.delivery.Endings.CancelOf(tenant, request)
		return
	}
	s.delivery.Endings.Cancel(request)
}

// refuseCut tells the sender of too many headers, if that can be told.
func (s *Edge) refuseCut(m *nats.Msg) {
	s.metrics.Refused.Inc()
	to := delivery.Destination{Subject: m.Reply, Origin: delivery.Inbox, Encoding: pb.Encoding_ENCODING_JSON}
	if m.Reply != "" && s.delivery.Sender.Answerable(to) {
		s.delivery.Sender.Tell(to, edge.Refusal("", edge.Errorf(edge.PayloadTooLarge, "the headers are more than are read: 64 lines, 64 KiB")))
	}
}

// refuseCutUnserved leaves what is for a model that a replica serves to that replica.
func (s *Edge) refuseCutUnserved(m *nats.Msg) {
	model, _, asked := s.d.Subjects.ParseAsk(m.Subject)
	if !asked {
		model, _, _ = s.d.Subjects.ParsePrompt(m.Subject)
	}
	if _, unserved := s.guard.unserved(model); unserved {
		s.refuseCut(m)
	}
}

// listenForOthers listens for what is for models that no replica serves.
func (s *Edge) listenForOthers() error {
	at := cmp.Or(s.d.Guard, s.d.Edge)
	for _, subject := range s.d.Subjects.AnyPrompt() {
		if err := s.subscribeAt(at, subject, "prompt-guard", s.refuseCutUnserved, s.guard.onAnyPrompt); err != nil {
			return err
		}
	}
	for _, subject := range s.d.Subjects.AnyAsk() {
		if err := s.subscribeAt(at, subject, "ask-guard", s.refuseCutUnserved, s.guard.onAnyAsk); err != nil {
			return err
		}
	}
	return nil
}
