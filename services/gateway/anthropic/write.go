package anthropic

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/conversation"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// errorTypes are what this API calls errors, by their statuses.
var errorTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error", http.StatusGatewayTimeout: "timeout_error",
	http.StatusInternalServerError: "api_error",
}

// problem is an error as this API's clients read it.
type problem struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// ErrorBody is an error in this API's form.
func ErrorBody(e *openai.Error) any {
	p := problem{Type: "error"}
	p.Error.Type, p.Error.Message = errorTypes[e.Status], e.Message
	if p.Error.Type == "" {
		p.Error.Type = openai.InvalidRequest
	}
	return p
}

// Message is an answer as clients read it.
type Message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

// block is one of an answer's content, or what a part adds to it.
type block struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text,omitempty"`
	Thinking *string         `json:"thinking,omitempty"`
	Sign     *string         `json:"signature,omitempty"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Partial  *string         `json:"partial_json,omitempty"`
}

type usage struct {
	InputTokens         int32 `json:"input_tokens"`
	CacheCreationTokens int32 `json:"cache_creation_input_tokens"`
	CacheReadTokens     int32 `json:"cache_read_input_tokens"`
	OutputTokens        int32 `json:"output_tokens"`
	openai.Extra
}

// Answer gathers a message.
type Answer struct {
	m     Message
	parts []*whole // one for each block
}

// part is what a block has, or what is added to it: a text, thoughts, or a call.
type part struct {
	text, thoughts string
	call           *openai.Call
}

// partsOf are those of a chunk.
func partsOf(c *pb.Chunk) (out []part) {
	if thoughts := c.GetParsed().GetReasoningContent(); thoughts != "" {
		out = append(out, part{thoughts: thoughts})
	}
	if c.Text != "" {
		out = append(out, part{text: c.Text})
	}
	for _, call := range openai.CallsOf(c) {
		out = append(out, part{call: &call})
	}
	return out
}

// New is a message of a prompt with so many tokens, to which nothing has come yet.
func New(id, model string, promptTokens int32) *Answer {
	return &Answer{m: Message{ID: "msg_" + id, Type: "message", Role: "assistant", Model: model, Content: []block{}, Usage: usage{InputTokens: promptTokens}}}
}

// Stopped says which stop string ends the message; empty: none does.
func (a *Answer) Stopped(by string) {
	if by != "" {
		a.m.StopSequence = &by
	}
}

// stopReasons are what this API calls the ends of answers.
var stopReasons = map[string]string{"stop": "end_turn", "length": "max_tokens"}

// Push takes a chunk in, and returns the events of what it adds.
func (a *Answer) Push(c *pb.Chunk) (events []Event) {
	if len(c.TokenIds) > 0 {
		a.m.Usage.OutputTokens = c.Index + 1
	}
	if events = a.add(partsOf(c)); c.FinishReason == "" {
		return events
	}
	if len(a.parts) == 0 {
		events = append(events, a.add([]part{{}})...)
	}
	a.m.StopReason = new(stopReasons[c.FinishReason])
	switch {
	case c.FinishReason == "stop" && a.calls():
		a.m.StopReason, a.m.StopSequence = new("tool_use"), nil
	case c.FinishReason == "stop" && a.m.StopSequence != nil:
		a.m.StopReason = new("stop_sequence")
	}
	a.m.Usage.count(c.GetUsage())
	return append(events, a.end()...)
}

// count takes what the last chunk counts. Here the prompt's cached tokens are not among its others.
func (u *usage) count(of *pb.Usage) {
	u.CacheReadTokens = of.GetCachedTokens()
	u.InputTokens = max(0, u.InputTokens-u.CacheReadTokens)
	u.OutputTokens = of.GetCompletionTokens()
	u.Add(of)
}

// calls reports whether there are any.
func (a *Answer) calls() bool {
	return slices.ContainsFunc(a.parts, func(p *whole) bool { return p.call != nil })
}

// add adds parts to the last block, or to new ones.
func (a *Answer) add(all []part) (events []Event) {
	for _, p := range all {
		if n := len(a.parts); n == 0 || a.parts[n-1].ended(p) {
			if n > 0 {
				events = append(events, Event{Name: "content_block_stop", Index: new(n - 1)})
			}
			events = append(events, Event{Name: "content_block_start", Index: new(n), Block: begun(p)})
			a.parts = append(a.parts, &whole{part: p})
		}
		at := len(a.parts) - 1
		a.parts[at].join(p)
		if d := delta(p); d != nil {
			events = append(events, Event{Name: "content_block_delta", Index: &at, Delta: d})
		}
	}
	return events
}

// ended reports whether what comes next is of another block.
func (p part) ended(next part) bool {
	return p.kind() != next.kind() || next.call != nil && next.call.Index != p.call.Index
}

// whole is a block's first part, and the text of all of them.
type whole struct {
	part
	text strings.Builder
}

// join adds to a block's text.
func (w *whole) join(more part) {
	w.text.WriteString(more.thoughts + more.text) // it has one of them, or is of a call
	if w.call != nil {
		w.text.WriteString(more.call.Arguments)
	}
}

// kind is the type of the block that has it.
func (p part) kind() string {
	switch {
	case p.call != nil:
		return "tool_use"
	case p.thoughts != "":
		return "thinking"
	}
	return "text"
}

// begun is a block to which nothing was added.
func begun(p part) *block {
	b := &block{Type: p.kind()}
	switch b.Type {
	case "tool_use":
		b.ID, b.Name, b.Input = p.call.ID, p.call.Name, json.RawMessage("{}")
	case "thinking":
		b.Thinking, b.Sign = new(""), new("")
	default:
		b.Text = new("")
	}
	return b
}

// delta is what is added to a block; nil: nothing.
func delta(p part) *block {
	switch {
	case p.call != nil && p.call.Arguments != "":
		return &block{Type: "input_json_delta", Partial: &p.call.Arguments}
	case p.thoughts != "":
		return &block{Type: "thinking_delta", Thinking: &p.thoughts}
	case p.text != "":
		return &block{Type: "text_delta", Text: &p.text}
	}
	return nil
}

// Whole is the message, without a call that was cut: its input would be no object.
func (a *Answer) Whole() any {
	m := a.m
	for _, p := range a.parts {
		b, text := begun(p.part), p.text.String()
		switch b.Type {
		case "tool_use":
			if b.Input = conversation.Arguments(strings.TrimSpace(text)); b.Input[0] != '{' {
				continue
			}
		case "thinking":
			b.Thinking = &text
		default:
			b.Text = &text
		}
		m.Content = append(m.Content, *b)
	}
	return m
}

// Event is one of a stream, with its name.
type Event struct {
	Name string `json:"type"`

	Message *Message `json:"message,omitempty"`
	Index   *int     `json:"index,omitempty"`
	Block   *block   `json:"content_block,omitempty"`
	Delta   any      `json:"delta,omitempty"`
	Usage   *usage   `json:"usage,omitempty"`
}

// Begin is the event before all others.
func (a *Answer) Begin() Event {
	m := a.m
	return Event{Name: "message_start", Message: &m}
}

// end are the events behind the last block.
func (a *Answer) end() []Event {
	return []Event{
		{Name: "content_block_stop", Index: new(len(a.parts) - 1)},
		{Name: "message_delta", Delta: struct {
			StopReason   *string `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		}{a.m.StopReason, a.m.StopSequence}, Usage: &a.m.Usage},
		{Name: "message_stop"},
	}
}
