package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// chat answers a conversation.
func (d *Door) chat(c *call) error { return d.answer(c, fields.Chat, openai.ReadChat) }

// complete answers prompts as they are.
func (d *Door) complete(c *call) error { return d.answer(c, fields.Completion, openai.ReadCompletion) }

// answer reads what is asked, asks for it, and tells what comes.
func (d *Door) answer(c *call, route *fields.Route, read reader[*openai.Ask]) error {
	ask, err := readBody(d, c, route, read)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(withNames(c.r.Context(), ask.Names))
	defer cancel()
	m, err := d.askable(ctx, c, ask.Model)
	if err != nil {
		return err
	}
	if ask.Chat && !m.Chat {
		return openai.Bad("messages", "the model %.100s has no chat template: use /v1/completions", ask.Model)
	}
	leave, err := d.enter(c, ask.Answers())
	if err != nil {
		return err
	}
	defer leave()
	kind := "completion"
	if ask.Chat {
		kind = "chat"
	}
	c.claim(m, kind)
	operation := "text_completion"
	if ask.Chat {
		operation = "chat"
	}
	t := d.watch(ctx, c, m, operation, ask.Model)
	return d.ended(ctx, t, m, d.tell(t.ctx, c, m, ask, t))
}

// reader reads the body of a route, unless its client leaves meanwhile.
type reader[A any] func(ctx context.Context, body []byte) (A, error)

// readBody reads a call's body when it is known what that takes, for which there is to be room. What
// its prompts have of that the call keeps.
func readBody[A any](d *Door, c *call, route *fields.Route, read reader[A]) (a A, err error) {
	body, err := d.body(c)
	if err != nil {
		return a, err
	}
	memory, err := route.Measure(body)
	if excess := (*fields.Excess)(nil); errors.As(err, &excess) {
		return a, openai.Bad(excess.Path, "%s", excess.Why)
	}
	if err := c.room.take(memory); err != nil {
		return a, err
	}
	a, err = read(c.r.Context(), body)
	c.room.keep(memory / keptPart)
	return a, err
}

// tell asks for all answers, and writes them. An error is the answer; what ends a stream that
// has begun is told in it.
func (d *Door) tell(ctx context.Context, c *call, m upstream.Model, ask *openai.Ask, t *tale) error {
	r := openai.NewWriter(ask, openai.Head{ID: c.id, Model: ask.Model, Fingerprint: m.Fingerprint(), Created: time.Now().Unix()})
	asked, err := d.asked(ctx, c, m, ask)
	if err != nil {
		return err
	}
	ask.Prompts = nil // they are let go of when they are on their way
	to := c.to(m)
	if !ask.Stream {
		for got, err := range d.gather(ctx, to, asked) {
			if err != nil {
				return err
			}
			got.push(r.Choices[got.answer], t)
		}
		openai.WriteJSON(c.w, http.StatusOK, r.Whole())
		return nil
	}
	return d.stream(ctx, c, m, to, asked, r, t)
}

// stream writes what comes as events. That the client is gone ends it, and is no error.
func (d *Door) stream(ctx context.Context, c *call, m upstream.Model, to upstream.To, asked []*asking, r *openai.Reply, t *tale) error {
	events := openai.NewEvents(c.w, d.Stall)
	defer events.Waits(d.quiet, openai.Comment)()
	for got, err := range d.gather(ctx, to, asked) {
		switch {
		case err != nil && !events.Begun():
			return err
		case err != nil:
			e := d.refusal(ctx, err, m.Context)
			t.failed = e
			_ = events.Send(e.Body()) // the client may be gone
			_ = events.Done()
			return nil
		}
		choice := r.Choices[got.answer]
		for _, p := range got.push(choice, t) {
			for _, event := range r.Parts(choice, p) {
				if events.Send(event) != nil {
					t.left = true
					return nil
				}
			}
		}
	}
	if event, wanted := r.Counted(); wanted {
		_ = events.Send(event) // as above
	}
	_ = events.Done()
	return nil
}

// asking is one answer that is asked for.
type asking struct {
	prompt *pb.Prompt
	echo   *echo // nil: its prompt is not told
	// begun is called when its answer begins.
	begun func()
}

// fits refuses a prompt that no tokenizer of its model reads, and takes room for the messages with
// which so many answers are asked for.
func (c *call) fits(m upstream.Model, p *pb.Prompt, answers int) error {
	size := int64(proto.Size(p))
	if m.MostBytes > 0 && size > m.MostBytes {
		return &client.Error{Code: client.CodePayloadTooLarge, Message: fmt.Sprintf("the prompt has %d bytes; with its context the model %s reads %d", size, m.Name, m.MostBytes)}
	}
	return c.room.take(size * int64(answers))
}

// holds takes room for a prompt that is counted, whether or not a context has room for it.
func (c *call) holds(p *pb.Prompt) error { return c.room.take(int64(proto.Size(p))) }

// asked are the prompts of all answers, with ids and seeds of their own. The rest of a prompt is one
// for all of its answers.
func (d *Door) asked(ctx context.Context, c *call, m upstream.Model, ask *openai.Ask) (all []*asking, err error) {
	var waiting atomic.Int64
	for _, p := range ask.Prompts {
		if err := c.fits(m, p, ask.N); err != nil {
			return nil, err
		}
		p, e, err := d.prepared(ctx, m, ask, p)
		if err == nil {
			err = c.room.take(e.bytes() * int64(ask.N))
		}
		if err != nil {
			return nil, err
		}
		for n := range ask.N {
			one := &asking{prompt: client.Share(p), echo: e.fresh()}
			one.begun = func() {
				if one.prompt = nil; waiting.Add(-1) == 0 {
					c.room.keep(0)
				}
			}
			one.prompt.RequestId = c.several(len(all))
			if p.Seed != nil {
				one.prompt.Seed = new(openai.SeedOf(*p.Seed, n))
			}
			all = append(all, one)
		}
	}
	waiting.Store(int64(len(all)))
	return all, nil
}

// prepared returns a prompt as it is sent, and what is told of it.
func (d *Door) prepared(ctx context.Context, m upstream.Model, ask *openai.Ask, p *pb.Prompt) (_ *pb.Prompt, e *echo, err error) {
	if ask.Bare {
		if p, err = d.bare(ctx, m, p); err != nil {
			return nil, nil, err
		}
	}
	if ask.Rest {
		if p, err = d.rest(ctx, m, p); err != nil {
			return nil, nil, err
		}
	}
	if ask.Echo {
		return d.echoed(ctx, m, p)
	}
	return p, nil, nil
}
