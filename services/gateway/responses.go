package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/responses"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// respond creates a response: of a client that waits, or in the background.
func (d *Door) respond(c *call) error {
	ask, err := readBody(d, c, fields.Responses, responses.Read)
	if err != nil {
		return err
	}
	if ask.Background && !ask.Shown.Store {
		return openai.Bad("background", "background needs store: what goes on without its client is kept for it")
	}
	ctx, cancel := context.WithCancel(withNames(c.r.Context(), responses.Names()))
	defer cancel()
	m, err := d.askable(ctx, c, ask.Model)
	if err != nil {
		return err
	}
	leave, err := d.enter(c, 1)
	if err != nil {
		return err
	}
	defer leave()
	now := time.Now().Unix()
	if err := errors.Join(c.fits(m, ask.Prompt, 1), c.room.take(perShown*ask.Shown.Bytes())); err != nil {
		return err
	}
	p, public := client.Share(ask.Prompt), ""
	public, p.RequestId = c.claimResponse(m, ask.Shown.Store, now)
	r := responses.New(responseID(public, m.Name), ask.Model, m.Fingerprint(), now, ask.Shown)
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
		chunks = d.Upstream.Replay(ctx, to, p.RequestId, 0)
	}
	chunks = begins(chunks, func() { c.room.keep(perShown * ask.Shown.Bytes()) })
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
	for _, e := range r.Begin() {
		if e.Number > after {
			_ = events.Opens(e.Type, e) // of texts and numbers
		}
	}
	defer events.Waits(d.quiet, openai.Comment)()
	send := func(all ...responses.Event) bool {
		for _, e := range all {
			if e.Number > after && events.Named(e.Type, e) != nil {
				t.leave()
				return false
			}
		}
		return true
	}
	for chunk, err := range chunks {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil && !events.Begun() {
			return err
		}
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

func notFound(id string) error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.InvalidRequest, Code: "not_found", Param: "response_id", Message: "Response with id '" + id + "' not found: it is unknown here, or too old"}
}

// found is what a response's id names.
type found struct {
	id, request string
	m           upstream.Model
	created     int64
}

// find is the response of a call's path, unless it cannot be one, and a place for its answer. Whose
// it is, the services see.
func (d *Door) find(c *call) (f found, leave func(), err error) {
	f.id = c.r.PathValue("id")
	request, model, created, err := ofResponse(f.id)
	if err != nil {
		return f, nil, err
	}
	f.request, f.created = request, created
	if f.m, leave, err = d.enterModel(c.r.Context(), c, model); hasCode(err, client.CodeModelNotFound) {
		return f, nil, notFound(f.id)
	}
	return f, leave, err
}

// response is what there is of it before its tokens are read.
func (f found) response() *responses.Response {
	return responses.New(f.id, f.m.Name, f.m.Fingerprint(), f.created, responses.DefaultShown())
}

// showResponse tells a response as it is now, or streams it from behind a number on.
func (d *Door) showResponse(c *call) error {
	f, leave, err := d.find(c)
	if err != nil {
		return err
	}
	defer leave()
	query := c.r.URL.Query()
	if query.Get("stream") != "true" {
		return d.showNow(c, f)
	}
	after, err := strconv.ParseInt(query.Get("starting_after"), 10, 32)
	if query.Get("starting_after") == "" {
		after, err = -1, nil
	}
	if err != nil {
		return openai.Bad("starting_after", "starting_after must be the sequence_number of an event")
	}
	err = d.streamResponse(c.r.Context(), c, f.m, d.Upstream.Replay(c.r.Context(), c.to(f.m), f.request, 0), f.response(), int32(after), nil)
	if isUnknown(err) {
		return notFound(f.id)
	}
	return err
}

// isUnknown reports whether the services refused an id that they do not know, or not as the tenant's.
func isUnknown(err error) bool {
	var of *client.Error
	return hasCode(err, client.CodeBadRequest) && errors.As(err, &of) && strings.Contains(of.Message, "is unknown")
}

// hasCode reports whether the services refused with a code.
func hasCode(err error, code string) bool {
	var of *client.Error
	return errors.As(err, &of) && of.Code == code
}

// quietFor is how long nothing more comes of an answer that is told as it is now.
const quietFor = 150 * time.Millisecond

// showNow tells what there is of a response, without waiting for the rest.
func (d *Door) showNow(c *call, f found) error {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	quiet := time.AfterFunc(quietFor, func() { cancel(errQuiet) })
	defer quiet.Stop()
	r := f.response()
	for chunk, err := range d.Upstream.Replay(ctx, c.to(f.m), f.request, 0) {
		if err == nil {
			err = client.Failure(chunk)
		}
		if errors.Is(context.Cause(ctx), errQuiet) {
			break
		}
		if err != nil {
			if isUnknown(err) {
				return notFound(f.id)
			}
			if c.r.Context().Err() != nil {
				return err
			}
			r.Fail(d.refusal(ctx, err, f.m.Context))
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
	f, leave, err := d.find(c)
	if err != nil {
		return err
	}
	defer leave()
	if err := d.Upstream.Cancel(c.to(f.m), f.request); err != nil {
		return &client.Error{Code: client.CodeInterrupted, Message: "the cancellation did not get through", Cause: err}
	}
	return d.showNow(c, f)
}

// deleteResponse ends a response, and has nothing of it kept.
func (d *Door) deleteResponse(c *call) error {
	f, leave, err := d.find(c)
	if err != nil {
		return err
	}
	defer leave()
	if err := d.Upstream.Forget(c.r.Context(), c.to(f.m), f.request); err != nil {
		if isUnknown(err) {
			return notFound(f.id)
		}
		return err
	}
	openai.WriteJSON(c.w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{f.id, "response", true})
	return nil
}
