// Package client is the producer's side of Switchyard: it publishes a prompt
// and streams the answer without a gap and without a duplicate, whatever
// happens to connections and services on the way. It needs nats.go and the
// schemas only.
//
//	stream, err := client.New(nc, client.Settings{}).Prompt(ctx, &pb.Prompt{Text: "Once"})
//	…
//	for chunk, err := range stream.Chunks() {
//
// Chunks travel on core NATS, which may lose them, and are sent again after
// failures. A chunk carries the index of its newest token, and the same index
// always carries the same bytes; so the client drops what it has seen, and
// asks the replay service for what it misses.
package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/switchyard/switchyard/pkg/transport/leaving"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// DefaultModel is the model that is asked when none is named.
const DefaultModel = "demo"

// Settings are what code that uses a Client can choose.
type Settings struct {
	// Prefix of all subjects; empty: schemas.DefaultPrefix.
	Prefix string
	// Model to ask; empty: DefaultModel.
	Model string
	// Tenant and Class say whose the prompts are and how urgent; empty:
	// schemas.DefaultTenant and schemas.ClassNormal.
	Tenant string
	Class  schemas.Class
	// Silence is how long no chunk may come before a replay is asked for; 0: two seconds.
	Silence time.Duration
	// Patience is how long nobody may answer replays before the stream counts
	// as interrupted, and how long a prompt may wait for its acceptance; 0: half a minute.
	Patience time.Duration
	// Away is how long the connection may be broken before the stream counts as
	// interrupted; 0: as Patience.
	Away time.Duration
	// ByTenant says that replays and cancellations go by subjects with the tenant, whose requests
	// alone they are about. Where a server has users, it does so by itself for producers.
	ByTenant bool
	// Inject writes the trace of a context to a message's headers; nil: none.
	Inject func(context.Context, nats.Header)
	// Allowed is told what the tenant may have a minute, when a chunk says it; nil: nobody is.
	Allowed func(schemas.Allowance)
}

func (s Settings) withDefaults() Settings {
	if s.Prefix == "" {
		s.Prefix = schemas.DefaultPrefix
	}
	if s.Model == "" {
		s.Model = DefaultModel
	}
	if s.Tenant == "" {
		s.Tenant = schemas.DefaultTenant
	}
	if s.Silence == 0 {
		s.Silence = 2 * time.Second
	}
	if s.Patience == 0 {
		s.Patience = 30 * time.Second
	}
	if s.Away == 0 {
		s.Away = s.Patience
	}
	return s
}

// Client sends prompts for one model. Its methods may be called at once from
// many goroutines; the connection stays the caller's.
type Client struct {
	nc       *nats.Conn
	settings Settings
	subjects schemas.Subjects

	useless    leaving.Streak // of what was asked of the server
	reconnects atomic.Uint64  // of the connection, when that began
	left       atomic.Uint64  // how many servers were left because of that

	leaveAfter, gapDelay time.Duration // constant but in tests
}

// New returns a client on a connection, which should reconnect forever. When its
// server is of no use for ten seconds, or does not answer at all for as long as Silence, it
// is made to reconnect to another one.
func New(nc *nats.Conn, s Settings) *Client {
	s = s.withDefaults()
	return &Client{nc: nc, settings: s, subjects: schemas.NewSubjects(s.Prefix, s.Model), leaveAfter: leaving.After, gapDelay: overtaking}
}

// Share returns a prompt whose fields can be set without changing p's. Lists and messages in it are
// p's own: they may be large, and are not to be changed.
func Share(p *pb.Prompt) *pb.Prompt {
	out := &pb.Prompt{}
	to := out.ProtoReflect()
	p.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(field, v)
		return true
	})
	return out
}

// Prompt publishes p and returns once it is accepted: from then on it ends in
// a full answer or in one error, even if this process dies. The end of ctx
// cancels the request. An error is an *Error.
func (c *Client) Prompt(ctx context.Context, p *pb.Prompt) (*Stream, error) {
	p = Share(p)
	if p.RequestId == "" {
		p.RequestId = rand.Text() // who guesses it can read the answer
	}
	s, err := c.open(ctx, p.RequestId, p.FromIndex, p.Score != "", inboxSize)
	if err != nil {
		return nil, err
	}
	p.ReplyTo = s.inbox.Subject
	if s.prompt, err = c.publish(ctx, p); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Ask publishes p for a caller that waits, and returns at once: what becomes of it, the
// stream says. The request lives as long as the stream is open, in this process: it ends when
// that or ctx does.
func (c *Client) Ask(ctx context.Context, p *pb.Prompt) (*Stream, error) {
	p = Share(p)
	if p.RequestId == "" {
		p.RequestId = rand.Text() // as Prompt
	}
	room := inboxSize
	if p.Score == "" {
		room = askedInbox
	}
	s, err := c.open(ctx, p.RequestId, p.FromIndex, p.Score != "", room)
	if err != nil {
		return nil, err
	}
	if s.prompt, err = c.message(ctx, p, c.subjects.AskOf); err == nil {
		s.prompt.Reply = s.inbox.Subject
		err = s.again()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Resume streams a request that was accepted before, from a token index on.
// The end of ctx cancels the request.
func (c *Client) Resume(ctx context.Context, request string, fromIndex int32) (*Stream, error) {
	s, err := c.open(ctx, request, fromIndex, false, inboxSize)
	if err != nil {
		return nil, err
	}
	if err := s.replay(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Cancel ends a request early, whoever streams it.
func (c *Client) Cancel(request string) error {
	body, err := proto.Marshal(&pb.Cancel{RequestId: request, Reason: "cancelled"})
	if err != nil {
		return fmt.Errorf("encoding the cancellation of %s: %w", request, err)
	}
	subject := c.subjects.Cancel(request)
	if c.settings.ByTenant {
		subject = c.subjects.CancelOf(c.settings.Tenant, request)
	}
	msg := protobufMsg(subject, body)
	if err := c.nc.PublishMsg(msg); err != nil {
		return fmt.Errorf("publishing the cancellation of %s: %w", request, err)
	}
	if err := c.nc.FlushTimeout(c.settings.Silence); err != nil {
		return fmt.Errorf("waiting until the cancellation of %s is on its way: %w", request, err)
	}
	return nil
}

// publish sends the prompt until it is acknowledged, and returns its message.
// Sending it twice is harmless: the same request_id is the same request.
func (c *Client) publish(ctx context.Context, p *pb.Prompt) (*nats.Msg, error) {
	msg, err := c.message(ctx, p, c.subjects.PromptOf)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(c.nc)
	if err != nil {
		return nil, &Error{Code: CodeInternal, Message: "JetStream cannot be used on this connection", Cause: err}
	}
	return msg, c.untilAccepted(ctx, js, msg, p.RequestId)
}

// message is a prompt on its way to a subject of the client's tenant and class.
func (c *Client) message(ctx context.Context, p *pb.Prompt, to func(schemas.Flow) string) (*nats.Msg, error) {
	flow := schemas.Flow{Tenant: c.settings.Tenant, Class: c.settings.Class}.OrDefault()
	if err := flow.Check(); err != nil {
		return nil, &Error{Code: CodeBadRequest, Message: err.Error()}
	}
	body, err := proto.Marshal(p)
	if err != nil {
		return nil, &Error{Code: CodeBadRequest, Message: "the prompt cannot be encoded", Cause: err}
	}
	msg := protobufMsg(to(flow), body)
	if c.settings.Inject != nil {
		c.settings.Inject(ctx, msg.Header)
	}
	if size, limit := int64(msg.Size()-len(msg.Subject)), c.nc.MaxPayload(); size > limit {
		return nil, tooLarge(size, limit)
	}
	return msg, nil
}

func (c *Client) untilAccepted(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, request string) error {
	patient, cancel := context.WithTimeout(ctx, c.settings.Patience)
	defer cancel()
	var lost time.Time
	for begun := c.left.Load(); ; {
		asked := c.left.Load()
		attempt, cancelAttempt := context.WithTimeout(patient, c.settings.Silence)
		_, err := js.PublishMsg(attempt, msg)
		cancelAttempt()
		c.judge(err)
		denied := c.forbidden(msg.Subject)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			// It may have been accepted all the same.
			return c.cancelled(ctx, request)
		case c.away(&lost) && (patient.Err() != nil || time.Since(lost) >= c.settings.Away):
			return outage(lost, "the prompt was acknowledged; sending it again under the same request_id is safe", err)
		case denied != nil:
			return denied
		case patient.Err() != nil || !mayPass(err) && !c.mayReturn(err, begun, asked):
			return acceptError(err, c.settings.Model, withoutUser(c.nc.ConnectedUrl()))
		}
		select { // a broken connection refuses at once
		case <-patient.Done():
		case <-time.After(c.settings.Silence / 10):
		}
	}
}

// away reports whether the connection is broken, and notes since when; zero: it is not.
func (c *Client) away(lost *time.Time) bool {
	if c.nc.IsConnected() {
		*lost = time.Time{}
	} else if lost.IsZero() {
		*lost = time.Now()
	}
	return !lost.IsZero()
}

// cancelled cancels a request at the end of its context and says so.
func (c *Client) cancelled(ctx context.Context, request string) *Error {
	e := &Error{Code: CodeCancelled, Message: "the request was cancelled by its producer", Cause: context.Cause(ctx)}
	if err := c.Cancel(request); err != nil {
		e.Message += "; telling the server failed, so that it may go on: " + err.Error()
	}
	return e
}

func protobufMsg(subject string, body []byte) *nats.Msg {
	return &nats.Msg{
		Subject: subject, Data: body,
		Header: nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}},
	}
}
