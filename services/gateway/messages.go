package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/anthropic"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// message answers a conversation in the form of Anthropic's Messages.
func (d *Door) message(c *call) error {
	ask, err := readBody(d, c, fields.Messages, anthropic.Read)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(withNames(c.r.Context(), anthropic.Names()))
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
	tokens, err := d.counted(ctx, c, m, ask)
	if err != nil {
		return err
	}
	if int(tokens) >= m.Context {
		return &openai.Error{Status: http.StatusBadRequest, Type: openai.InvalidRequest, Code: "context_length_exceeded", Message: fmt.Sprintf("prompt is too long: %d tokens > %d maximum, which the context holds with one to generate", tokens, m.Context-1)}
	}
	c.claim(m, "message")
	// max_tokens is only a bound here, as this API says.
	p := client.Share(ask.Prompt)
	p.RequestId, p.MaxTokens = c.id, new(max(1, min(*p.MaxTokens, int32(m.Context)-tokens))) // a context is less
	t := d.watch(ctx, c, m, "chat", ask.Model)
	err = d.tellMessage(t.ctx, c, m, ask.Stream, p, anthropic.New(c.id, ask.Model, tokens), t)
	return d.ended(ctx, t, m, err)
}

func (d *Door) tellMessage(ctx context.Context, c *call, m upstream.Model, stream bool, p *pb.Prompt, a *anthropic.Answer, t *tale) error {
	events := openai.NewEvents(c.w, d.Stall)
	if stream {
		_ = events.Opens("message_start", a.Begin()) // of texts and numbers
		defer events.Waits(d.quiet, ping)()
	}
	var ids []uint32
	stops := p.Stop
	for chunk, err := range begins(d.Upstream.Ask(ctx, c.to(m), p), func() { c.room.keep(0) }) {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil && events.Begun() {
			t.failed = d.refusal(ctx, err, m.Context)
			_ = events.Named("error", anthropic.ErrorBody(t.failed)) // the client may be gone
			return nil
		}
		if err != nil {
			return err
		}
		t.chunk(chunk)
		if ids = append(ids, chunk.TokenIds...); chunk.FinishReason == "stop" && len(stops) > 0 {
			a.Stopped(d.stoppedBy(ctx, m, stops, ids))
		}
		if !stream {
			a.Push(chunk)
			continue
		}
		if !sendMessage(events, a, chunk) {
			t.left = true
			return nil
		}
	}
	if !stream {
		openai.WriteJSON(c.w, http.StatusOK, a.Whole())
	}
	return nil
}

// mostStopIDs is how many tokens' bytes a stop string can be in.
const mostStopIDs = 1100

// stoppedBy is the stop string that an answer's last token completes; empty: none is known to.
func (d *Door) stoppedBy(ctx context.Context, m upstream.Model, stops []string, ids []uint32) (by string) {
	tokens, err := d.Upstream.Tokens(ctx, m.Name, &pb.Prompt{InputIds: ids[max(0, len(ids)-mostStopIDs):]})
	if err != nil || len(tokens.Pieces) == 0 {
		return "" // the answer is whole without it
	}
	text := string(bytes.Join(tokens.Pieces, nil))
	before, first := len(text)-len(tokens.Pieces[len(tokens.Pieces)-1]), len(text)
	for _, stop := range stops {
		from := max(0, before-len(stop)+1) // it ends in the last token
		if at := strings.Index(text[from:], stop); stop != "" && at >= 0 && from+at < first {
			by, first = stop, from+at
		}
	}
	return by
}

// ping is what this API's clients wait by.
const ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n"

// sendMessage writes what a chunk adds; false: the client is gone.
func sendMessage(events *openai.Events, a *anthropic.Answer, chunk *pb.Chunk) bool {
	for _, e := range a.Push(chunk) {
		if events.Named(e.Name, e) != nil {
			return false
		}
	}
	return true
}

// countTokens counts the tokens of a conversation.
func (d *Door) countTokens(c *call) error {
	ask, err := readBody(d, c, fields.CountTokens, anthropic.ReadCount)
	if err != nil {
		return err
	}
	m, leave, err := d.enterModel(c.r.Context(), c, ask.Model)
	if err != nil {
		return err
	}
	defer leave()
	tokens, err := d.counted(c.r.Context(), c, m, ask)
	if err != nil {
		return err
	}
	openai.WriteJSON(c.w, http.StatusOK, struct {
		Tokens int32 `json:"input_tokens"`
	}{tokens})
	return nil
}

// counted counts the prompt's tokens.
func (d *Door) counted(ctx context.Context, c *call, m upstream.Model, ask *anthropic.Ask) (int32, error) {
	p := ask.Prompt
	if err := c.holds(p); err != nil {
		return 0, err
	}
	tokens, err := d.Upstream.Count(ctx, m.Name, &pb.Prompt{Messages: p.Messages, Tools: p.Tools, ChatTemplateKwargs: p.ChatTemplateKwargs, ContinueFinal: p.ContinueFinal})
	if err != nil {
		return 0, d.refusal(ctx, err, m.Context)
	}
	return tokens, nil
}
