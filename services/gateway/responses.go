package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/responses"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// respond creates a response: of a client that waits, or in the background.
func (d *Door) respond(c *call) error {
	ask, err := readBody(d, c, responses.Read)
	if err != nil {
		return err
	}
	leave, err := d.enter(1)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	m, err := d.Upstream.Find(ctx, ask.Model)
	if err != nil {
		return err
	}
	now := time.Now().Unix()
	p := proto.CloneOf(ask.Prompt)
	if p.RequestId = c.id; c.r.Header.Get(headerIdempotency) == "" {
		p.RequestId += strconv.FormatInt(now, 16) // so that every gateway knows when it was
		c.w.Header().Set("X-Request-Id", p.RequestId)
	}
	r := responses.New(responseID(p.RequestId, m.Name), ask.Model, m.Fingerprint(), now, ask.Shown)
	to := c.to(m)
	t := d.watch(ctx, c, m, "chat", ask.Model)
	err = d.tellResponse(t.ctx, c, m, to, ask, p, r, t)
	return d.ended(ctx, t, m, err)
}

func (d *Door) tellResponse(ctx context.Context, c *call, m upstream.Model, to upstream.To, ask *responses.Ask, p *pb.Prompt, r *responses.Response, t *tale) error {
	chunks := d.Upstream.Ask(ctx, to, p)
	if ask.Background {
		if err := d.Upstream.Accept(ctx, to, p); err != nil {
			return err
		}
		if !ask.Stream {
			openai.WriteJSON(c.w, http.StatusOK, r.Object())
			return nil
		}
		chunks = d.Upstream.Replay(ctx, m.Name, p.RequestId, 0)
	}
	if ask.Stream {
		return d.streamResponse(ctx, c, m, chunks, r, -1, t)
	}
	for chunk, err := range chunks {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil {
			return err
		}
		t.chunk(chunk)
		r.Push(chunk)
	}
	openai.WriteJSON(c.w, http.StatusOK, r.Object())
	return nil
}

// streamResponse writes a response's events behind a number.
func (d *Door) streamResponse(ctx context.Context, c *call, m upstream.Model, chunks upstream.Chunks, r *responses.Response, after int32, t *tale) error {
	events := openai.NewEvents(c.w, d.Stall)
	send := func(all ...responses.Event) bool {
		for _, e := range all {
			if e.Number > after && events.Named(e.Type, e) != nil {
				t.leave()
				return false
			}
		}
		return true
	}
	began := false
	for chunk, err := range chunks {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil && !began {
			return err
		}
		if !began && !send(r.Begin()...) {
			return nil
		}
		began = true
		if err != nil {
			r.Fail(d.refusal(ctx, err, m.Context))
			send(r.End()...)
			return nil
		}
		t.chunk(chunk)
		if !send(r.Told(chunk)...) {
			return nil
		}
	}
	if r.Ended() {
		send(r.End()...)
	}
	return nil
}

// responseID is a response's: the request's id, and the model whose log has it.
func responseID(request, model string) string { return "resp_" + request + "." + model }

// ofResponse takes a response's id apart.
func ofResponse(id string) (request, model string, created int64, err error) {
	rest, is := strings.CutPrefix(id, "resp_")
	request, model, named := strings.Cut(rest, ".")
	if !is || !named || schemas.CheckRequestID(request) != nil || model == "" || schemas.ModelToken(model) != model {
		return "", "", 0, notFound(id)
	}
	if len(request) > timeDigits {
		created, err = strconv.ParseInt(request[len(request)-timeDigits:], 16, 64)
	}
	if err != nil || created < 0 {
		created = 0 // the client's own key, which does not say when
	}
	return request, model, created, nil
}

// timeDigits are those of seconds since 1970 in hex, for the next centuries.
const timeDigits = 8

func notFound(id string) error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.InvalidRequest, Code: "not_found", Param: "response_id", Message: "Response with id '" + id + "' not found: it is unknown here, or too old"}
}

// showResponse tells a response as it is now, or streams it from behind a number on.
func (d *Door) showResponse(c *call) error {
	id := c.r.PathValue("id")
	request, model, created, err := ofResponse(id)
	if err != nil {
		return err
	}
	m, err := d.Upstream.Find(c.r.Context(), model)
	if err != nil {
		return err
	}
	leave, err := d.enter(1)
	if err != nil {
		return err
	}
	defer leave()
	r := responses.New(id, model, m.Fingerprint(), created, responses.DefaultShown())
	query := c.r.URL.Query()
	if query.Get("stream") != "true" {
		return d.showNow(c, m, request, r)
	}
	after, err := strconv.ParseInt(query.Get("starting_after"), 10, 32)
	if query.Get("starting_after") == "" {
		after, err = -1, nil
	}
	if err != nil {
		return openai.Bad("starting_after", "starting_after must be the sequence_number of an event")
	}
	err = d.streamResponse(c.r.Context(), c, m, d.Upstream.Replay(c.r.Context(), m.Name, request, 0), r, int32(after), nil)
	if isUnknown(err) {
		return notFound(id)
	}
	return err
}

// isUnknown says whether the services refused an id that they do not know.
func isUnknown(err error) bool {
	var of *client.Error
	return errors.As(err, &of) && of.Code == client.CodeBadRequest && strings.Contains(of.Message, "is unknown")
}

// quietFor is how long nothing more comes of an answer that is told as it is now.
const quietFor = 150 * time.Millisecond

// showNow tells what there is of a response, without waiting for the rest.
func (d *Door) showNow(c *call, m upstream.Model, request string, r *responses.Response) error {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	quiet := time.AfterFunc(quietFor, func() { cancel(errQuiet) })
	defer quiet.Stop()
	for chunk, err := range d.Upstream.Replay(ctx, m.Name, request, 0) {
		if err == nil {
			err = client.Failure(chunk)
		}
		if errors.Is(context.Cause(ctx), errQuiet) {
			break
		}
		if err != nil {
			if isUnknown(err) {
				return notFound(r.Object().ID)
			}
			if c.r.Context().Err() != nil {
				return err
			}
			r.Fail(d.refusal(ctx, err, m.Context))
			break
		}
		quiet.Reset(quietFor)
		r.Push(chunk)
	}
	openai.WriteJSON(c.w, http.StatusOK, r.Object())
	return nil
}

var errQuiet = errors.New("nothing has come for a while")

// cancelResponse ends a response in the background, and tells what it is then.
func (d *Door) cancelResponse(c *call) error {
	id := c.r.PathValue("id")
	request, model, created, err := ofResponse(id)
	if err != nil {
		return err
	}
	m, err := d.Upstream.Find(c.r.Context(), model)
	if err != nil {
		return err
	}
	if err := d.Upstream.Cancel(m.Name, request); err != nil {
		return &client.Error{Code: client.CodeInterrupted, Message: "the cancellation did not get through", Cause: err}
	}
	return d.showNow(c, m, request, responses.New(id, model, m.Fingerprint(), created, responses.DefaultShown()))
}
