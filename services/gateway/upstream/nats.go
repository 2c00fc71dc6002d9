package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// silence is how long no chunk may come before it is looked for, and patience how long no
	// tokenizer may be there before a request fails.
	silence, patience = 2 * time.Second, 10 * time.Second
	// refusedWithin is how long a request that was accepted is watched: of one that is refused then
	// nothing is kept, so that later nobody knows it.
	refusedWithin = 500 * time.Millisecond
	// tokensWithin bounds the wait for ids.
	tokensWithin = 10 * time.Second
	// forgetWithin bounds the wait for an answer's end and erasure.
	forgetWithin = 15 * time.Second
)

// NATS is Interface over a connection.
type NATS struct {
	conn   *bus.Conn
	prefix string
	models *models
	inject func(context.Context, nats.Header)

	info *nats.Subscription
}

// New returns what asks over a connection, which stays the caller's. inject writes the trace of
// a context to a message's headers; nil: there is none.
func New(conn *bus.Conn, prefix string, inject func(context.Context, nats.Header)) *NATS {
	return &NATS{conn: conn, prefix: prefix, models: newModels(), inject: inject}
}

// Open begins to listen for models.
func (n *NATS) Open() (err error) {
	nc := n.conn.NATS()
	if n.info, err = nc.Subscribe(nc.NewInbox(), n.models.onInfo); err != nil {
		return fmt.Errorf("listening for models: %w", err)
	}
	n.look()
	return nil
}

// look asks all tokenizers what they serve. A broken connection is asked again later.
func (n *NATS) look() {
	_ = n.conn.NATS().PublishMsg(&nats.Msg{Subject: "$SRV.INFO." + n.prefix + "-tokenize", Reply: n.info.Subject})
}

// Run looks for models until ctx ends.
func (n *NATS) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.look()
		}
	}
}

// Close ends listening.
func (n *NATS) Close() {
	if n.info != nil {
		_ = n.info.Unsubscribe() // fails on a closed connection, which has none
	}
}

// Ready says why no model could be asked.
func (n *NATS) Ready() error { return errors.Join(n.conn.Ready(), n.models.ready()) }

// Models are those that are served.
func (n *NATS) Models() []Model { return n.models.list() }

// Find is the model of a name.
func (n *NATS) Find(ctx context.Context, name string, toAsk bool) (Model, error) {
	m, err := n.models.find(ctx, name, toAsk, n.look)
	m.MostBytes = min(m.MostBytes, n.conn.NATS().MaxPayload())
	return m, err
}

func (n *NATS) client(to To) *client.Client {
	inject := n.inject
	if inject != nil {
		inject = func(ctx context.Context, h nats.Header) {
			if n.inject(ctx, h); len(h["traceparent"]) > 0 {
				about, _ := n.models.named(to.Model)
				h.Set(schemas.HeaderSeal, schemas.Seal(about.Secret, "traceparent", h["traceparent"][0]))
			}
		}
	}
	return client.New(n.conn.NATS(), client.Settings{
		Prefix: n.prefix, Model: to.Model, Tenant: to.Flow.Tenant, Class: to.Flow.Class, Silence: silence, Patience: patience, Inject: inject,
		ByTenant: true, Allowed: to.Allowed,
	})
}

// Ask streams the answer of a request that waits.
func (n *NATS) Ask(ctx context.Context, to To, p *pb.Prompt) Chunks {
	return func(yield func(*pb.Chunk, error) bool) {
		asking := ctx
		if to.Shared { // the services see that an inbox is gone, and whether it was the last one
			asking = context.WithoutCancel(ctx)
		}
		stream, err := n.client(to).Ask(asking, p)
		if err != nil {
			yield(nil, err)
			return
		}
		reading, answered := n.untilDeaf(ctx, to.Model)
		defer answered()
		for chunk, err := range stream.Until(reading) {
			if err == nil {
				answered()
			} else if deaf := context.Cause(reading); errors.As(deaf, new(*client.Error)) {
				err = deaf
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// deafAfter is how long the tokenizers of a model may be silent until a request of which nothing has
// come is refused: none of them has taken it in, or none can say so.
const deafAfter = staleAfter + lookEvery

// untilDeaf returns a context that ends, with a *client.Error, when a model's tokenizers are silent for
// too long before answered is called.
func (n *NATS) untilDeaf(ctx context.Context, model string) (_ context.Context, answered func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(lookEvery / 2)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if silent := n.models.silent(model); silent >= deafAfter {
				cancel(&client.Error{Code: client.CodeModelNotReady, Message: fmt.Sprintf("no tokenizer of model %s has answered for %v; ask again", model, silent.Round(time.Second))})
			}
		}
	}()
	return ctx, sync.OnceFunc(func() { close(done) })
}

// Accept has a request accepted, and waits a moment for a refusal. It goes on when ctx ends.
func (n *NATS) Accept(ctx context.Context, to To, p *pb.Prompt) error {
	stream, err := n.client(to).Prompt(context.WithoutCancel(ctx), p)
	if err != nil {
		return err
	}
	watching, cancel := context.WithTimeout(ctx, refusedWithin)
	defer cancel()
	for chunk, err := range stream.Until(watching) {
		if err == nil && (chunk.Index < 0 || chunk.GetError().GetCode() == client.CodeBadRequest) { // also of one that was deleted
			return client.Failure(chunk)
		}
		break // its answer begins, or nothing is known of it yet
	}
	return nil
}

// Replay streams an accepted request's answer. Its own context is not ctx, whose end would
// cancel the request.
func (n *NATS) Replay(ctx context.Context, to To, request string, from int32) Chunks {
	return func(yield func(*pb.Chunk, error) bool) {
		stream, err := n.client(to).Resume(context.WithoutCancel(ctx), request, from)
		if err != nil {
			yield(nil, err)
			return
		}
		stream.Until(ctx)(yield)
	}
}

// Cancel ends a request.
func (n *NATS) Cancel(to To, request string) error { return n.client(to).Cancel(request) }

// Forget has a request ended and erased.
func (n *NATS) Forget(ctx context.Context, to To, request string) error {
	ctx, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	got, err := n.conn.NATS().RequestWithContext(ctx, schemas.NewSubjects(n.prefix, to.Model).Forget(to.Flow.Tenant, request), nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return &client.Error{Code: client.CodeModelNotReady, Message: "no tokenizer of the model answers", Cause: err}
	case err != nil:
		return &client.Error{Code: client.CodeInterrupted, Message: "asking a tokenizer", Cause: err}
	}
	c := &pb.Chunk{}
	if err := proto.Unmarshal(got.Data, c); err != nil {
		return &client.Error{Code: client.CodeInternal, Message: "reading a tokenizer's answer", Cause: err}
	}
	if c.Error != nil {
		return client.Failure(c)
	}
	return nil
}

// Tokens asks a tokenizer for ids, or for text.
func (n *NATS) Tokens(ctx context.Context, model string, p *pb.Prompt) (*pb.Tokens, error) {
	return n.tokens(ctx, model, p, nats.Header{})
}

type flowKey struct{}

// As has what is tokenized with a context count as a tenant's.
func As(ctx context.Context, flow schemas.Flow) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

// Count asks a tokenizer how many ids there are.
func (n *NATS) Count(ctx context.Context, model string, p *pb.Prompt) (int32, error) {
	t, err := n.tokens(ctx, model, p, nats.Header{schemas.HeaderCount: {"1"}})
	if n := len(t.GetIds()); n > 0 { // a tokenizer that does not count
		return int32(n), err
	}
	return t.GetCount(), err
}

func (n *NATS) tokens(ctx context.Context, model string, p *pb.Prompt, header nats.Header) (*pb.Tokens, error) {
	body, err := proto.Marshal(p)
	if err != nil {
		return nil, &client.Error{Code: client.CodeBadRequest, Message: "the prompt cannot be encoded", Cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, tokensWithin)
	defer cancel()
	header.Set(schemas.HeaderContentType, schemas.ContentProtobuf)
	if flow, is := ctx.Value(flowKey{}).(schemas.Flow); is {
		about, _ := n.models.named(model)
		header.Set(schemas.HeaderTenant, flow.Tenant)
		header.Set(schemas.HeaderSeal, schemas.Seal(about.Secret, schemas.HeaderTenant, flow.Tenant))
	}
	got, err := n.conn.NATS().RequestMsgWithContext(ctx, &nats.Msg{
		Subject: schemas.NewSubjects(n.prefix, model).Tokenize(), Data: body, Header: header,
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return nil, &client.Error{Code: client.CodeModelNotReady, Message: "no tokenizer of the model answers", Cause: err}
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, &client.Error{Code: client.CodePayloadTooLarge, Message: "the prompt does not fit a NATS message", Cause: err}
	case err != nil:
		return nil, &client.Error{Code: client.CodeInterrupted, Message: "asking a tokenizer", Cause: err}
	}
	return readTokens(got.Data)
}

func readTokens(body []byte) (*pb.Tokens, error) {
	t := &pb.Tokens{}
	if err := proto.Unmarshal(body, t); err != nil {
		return nil, &client.Error{Code: client.CodeInternal, Message: "reading a tokenizer's answer", Cause: err}
	}
	if t.Error != nil {
		return nil, client.Failure(&pb.Chunk{Error: t.Error})
	}
	return t, nil
}
