package tokenizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/edge"
	"github.com/switchyard/switchyard/pkg/members"
	"github.com/switchyard/switchyard/pkg/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Values of headerAsk.
const (
	askText  = "text"
	askTyped = "typed"
)

// serviceVersion is what `nats micro` shows.
const serviceVersion = "1.0.0"

// listen opens what producers reach without JetStream.
func (s *Service) listen() (err error) {
	nc := s.d.Conn.NATS()
	for _, o := range []struct {
		name, subject, what string
		handler             micro.HandlerFunc
	}{
		{"ask", s.d.Subjects.Ask(), "text or JSON in, a stream of chunks out", s.onAsk},
		{"replay", s.d.Subjects.Replay(), "the chunks of a request again, from an index on", s.onReplay},
	} {
		api, err := micro.AddService(nc, micro.Config{
			Name: s.d.Subjects.Prefix + "-" + o.name, Version: serviceVersion,
			Description: "model " + s.d.Subjects.Model + ": " + o.what,
			Endpoint:    &micro.EndpointConfig{Subject: o.subject, Handler: o.handler},
		})
		if err != nil {
			return fmt.Errorf("offering %s: %w", o.subject, err)
		}
		s.apis = append(s.apis, api)
	}
	for _, l := range []struct {
		subject, group string
		handler        nats.MsgHandler
	}{
		{s.d.Subjects.AnyCancel(), "tokenizer", s.onCancel},
		{s.d.Subjects.AnyProbe(s.id), "", s.onProbe},
		{s.d.Subjects.AnyPrompt(), "prompt-guard", s.onAnyPrompt},
		{s.d.Subjects.AnyAsk(), "ask-guard", s.onAnyAsk},
	} {
		sub, err := nc.QueueSubscribe(l.subject, l.group, l.handler)
		if err != nil {
			return fmt.Errorf("subscribing to %s: %w", l.subject, err)
		}
		s.subs = append(s.subs, sub)
	}
	return nil
}

// onAsk hands a request to the durable path, with the caller's inbox as its
// reply subject.
func (s *Service) onAsk(r micro.Request) {
	reply, header := r.Reply(), nats.Header(r.Headers())
	if reply == "" {
		return // nobody waits
	}
	kind := askTyped
	if _, enc, _ := edge.DecodePrompt(header, r.Data(), true); enc == pb.Encoding_ENCODING_TEXT {
		kind = askText
	}
	data := append([]byte(nil), r.Data()...)
	contentType := header.Get(schemas.HeaderContentType)
	s.tasks.Go(func() {
		if err := s.ask(kind, reply, contentType, header, data); err != nil {
			s.d.Logger.Warn("ask was not answered", "error", err)
		}
	})
}

func (s *Service) ask(kind, reply, contentType string, from nats.Header, data []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
	defer cancel()
	header := nats.Header{headerAsk: {kind}, schemas.HeaderReplyTo: {reply}}
	if contentType != "" {
		header.Set(schemas.HeaderContentType, contentType)
	}
	if parent := from["traceparent"]; len(parent) > 0 {
		header["traceparent"] = parent
	}
	refusal := s.notReady()
	if refusal == nil {
		done := make(chan error, 1)
		err := s.d.Conn.StoreAsync(ctx, s.d.Subjects.Prompt(), data, header, func(_ uint64, err error) { done <- err })
		if err == nil {
			err = <-done
		}
		refusal = refusalOf(err)
	}
	if refusal == nil {
		return nil
	}
	to := destination{subject: reply, encoding: encodingOf(kind, contentType)}
	return s.deliver(ctx, to, edge.Refusal("", refusal))
}

// askTimeout bounds the acceptance of an ask.
const askTimeout = 10 * time.Second

func encodingOf(kind, contentType string) pb.Encoding {
	switch {
	case kind == askText:
		return pb.Encoding_ENCODING_TEXT
	case contentType == schemas.ContentProtobuf:
		return pb.Encoding_ENCODING_PROTOBUF
	}
	return pb.Encoding_ENCODING_JSON
}

func refusalOf(err error) *edge.Error {
	var large *bus.TooLargeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return edge.Errorf(edge.PayloadTooLarge, "%v", large)
	case bus.IsFull(err):
		return &edge.Error{Code: edge.Overloaded, Message: "too many prompts wait already", RetryAfter: overloadPause}
	}
	return edge.Errorf(edge.Internal, "the prompt could not be stored: %v", err)
}

// notReady says why a caller who waits would wait in vain.
func (s *Service) notReady() *edge.Error {
	for _, m := range members.OfService(s.view.Snapshot(), "attention") {
		if m.Ready && !m.Draining {
			return nil
		}
	}
	return edge.Errorf(edge.ModelNotReady, "no attention replica of model %s is ready", s.d.Subjects.Model)
}

func (s *Service) onReplay(r micro.Request) {
	if r.Reply() == "" {
		return
	}
	req, encoding, err := edge.DecodeReplay(nats.Header(r.Headers()), r.Data())
	if err == nil {
		err = schemas.CheckRequestID(req.RequestId)
	}
	to := destination{subject: r.Reply(), encoding: encoding, from: req.GetFromIndex(), interactive: false}
	if err != nil {
		if e := s.deliver(s.ctx, to, edge.Refusal(req.GetRequestId(), badRequest(err))); e != nil {
			s.d.Logger.Debug("refusing a replay", "error", e)
		}
		return
	}
	s.replay(req.RequestId, to)
}

func badRequest(err error) error {
	var typed *edge.Error
	if errors.As(err, &typed) {
		return err
	}
	return edge.Errorf(edge.BadRequest, "%v", err)
}

// replay streams a request's chunks from its log, and goes on live.
func (s *Service) replay(request string, to destination) {
	s.tasks.Go(func() {
		var a *answer
		err := s.log.FollowRequest(s.ctx, request, func(e tokenlog.Entry) bool {
			if k, ok := e.Record.Kind.(*pb.Record_Accept); ok {
				a = newAnswer(request, k.Accept, s.newDetokenizer())
				return true
			}
			if a == nil {
				return true
			}
			if c := a.push(e.Record); c != nil {
				if err := s.deliver(s.ctx, to, c); err != nil {
					s.d.Logger.Debug("replaying", "request", request, "error", err)
				}
			}
			return !a.finished
		})
		if errors.Is(err, tokenlog.ErrUnknown) {
			refusal := edge.Refusal(request, edge.Errorf(edge.BadRequest, "request_id %q is unknown; it is kept for an hour", request))
			err = s.deliver(s.ctx, to, refusal)
		}
		if err != nil && s.ctx.Err() == nil {
			s.d.Logger.Warn("replay ended early", "request", request, "error", err)
		}
	})
}

// cancelGrace is how long an attention replica has to end a request itself.
const cancelGrace = 200 * time.Millisecond

// onCancel ends requests that no attention replica has: those that wait.
func (s *Service) onCancel(m *nats.Msg) {
	request := schemas.LastToken(m.Subject)
	reason := cancelReason(m)
	s.tasks.Go(func() {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(cancelGrace):
		}
		_, err := s.log.Finish(s.ctx, request, &pb.Terminal{FinishReason: reason})
		if err != nil && !errors.Is(err, tokenlog.ErrFinished) && !errors.Is(err, tokenlog.ErrUnknown) {
			s.d.Logger.Warn("cancelling", "request", request, "error", err)
		}
	})
}

// cancelReason is "stop" for our own message about a stop string.
func cancelReason(m *nats.Msg) string {
	c := &pb.Cancel{}
	if m.Header.Get(schemas.HeaderContentType) == schemas.ContentProtobuf && proto.Unmarshal(m.Data, c) == nil && c.Reason == "stop" {
		return "stop"
	}
	return "cancelled"
}

func (s *Service) cancel(request, reason string) {
	body, err := proto.Marshal(&pb.Cancel{RequestId: request, Reason: reason})
	if err == nil {
		err = s.d.Conn.NATS().PublishMsg(&nats.Msg{
			Subject: s.d.Subjects.Cancel(request), Data: body,
			Header: nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}},
		})
	}
	if err != nil {
		s.d.Logger.Warn("cancelling", "request", request, "error", err)
	}
}

// onProbe hears from the server that an interactive request's caller is gone.
func (s *Service) onProbe(m *nats.Msg) {
	if m.Header.Get("Status") == noResponders {
		s.cancel(schemas.LastToken(m.Subject), "cancelled")
	}
}

const noResponders = "503"

// onAnyPrompt refuses prompts for models that nobody serves: no stream takes
// them, so the publisher would wait for nothing.
func (s *Service) onAnyPrompt(m *nats.Msg) {
	token := schemas.LastToken(m.Subject)
	if token == s.d.Subjects.Model || s.served(token) {
		return
	}
	refusal := edge.Errorf(edge.ModelNotFound, "no model %q is served here", token)
	prompt, encoding, _ := edge.DecodePrompt(m.Header, m.Data, false)
	reply := m.Header.Get(schemas.HeaderReplyTo)
	if reply == "" {
		reply = prompt.GetReplyTo()
	}
	to := destination{subject: reply, encoding: encoding}
	if s.d.Subjects.CheckReplyTo(reply) != nil {
		to = destination{subject: schemas.NewSubjects(s.d.Subjects.Prefix, token).Rejected(), encoding: pb.Encoding_ENCODING_JSON}
	}
	if err := s.deliver(s.ctx, to, edge.Refusal(prompt.GetRequestId(), refusal)); err != nil {
		s.d.Logger.Debug("refusing a prompt", "error", err)
	}
	if m.Reply != "" {
		_ = m.Respond(refusedAck(refusal)) // the publisher is told as well if it can be
	}
}

// onAnyAsk tells callers that nobody serves the model they ask.
func (s *Service) onAnyAsk(m *nats.Msg) {
	token := schemas.LastToken(m.Subject)
	if m.Reply == "" || token == s.d.Subjects.Model || s.served(token) {
		return
	}
	prompt, encoding, _ := edge.DecodePrompt(m.Header, m.Data, true)
	refusal := edge.Refusal(prompt.GetRequestId(), edge.Errorf(edge.ModelNotFound, "no model %q is served here", token))
	if err := s.deliver(s.ctx, destination{subject: m.Reply, encoding: encoding}, refusal); err != nil {
		s.d.Logger.Debug("refusing an ask", "error", err)
	}
}

// served says whether another model's stream takes the prompt.
func (s *Service) served(model string) bool {
	name, err := s.d.Conn.JetStream().StreamNameBySubject(s.ctx, schemas.NewSubjects(s.d.Subjects.Prefix, model).Prompt())
	return err == nil && strings.HasSuffix(name, "_"+model)
}

// refusedAck is what a JetStream publish gets in place of its acknowledgement.
func refusedAck(e *edge.Error) []byte {
	body, err := json.Marshal(map[string]any{
		"stream": "", "error": map[string]any{"code": 404, "err_code": 10059, "description": e.Error()},
	})
	if err != nil {
		return []byte(`{"error":{"code":404,"description":"model_not_found"}}`)
	}
	return body
}
