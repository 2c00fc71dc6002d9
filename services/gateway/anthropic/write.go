package anthropic

import (
	"net/http"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/reply"
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
func ErrorBody(e *reply.Error) any {
	p := problem{Type: "error"}
	p.Error.Type, p.Error.Message = errorTypes[e.Status], e.Message
	if p.Error.Type == "" {
		p.Error.Type = reply.InvalidRequest
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

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type usage struct {
	InputTokens         int32 `json:"input_tokens"`
	CacheCreationTokens int32 `json:"cache_creation_input_tokens"`
	CacheReadTokens     int32 `json:"cache_read_input_tokens"`
	OutputTokens        int32 `json:"output_tokens"`
}

// Answer gathers a message.
type Answer struct {
	m    Message
	text strings.Builder
}

// New is a message of a prompt with so many tokens, to which nothing has come yet.
func New(id, model string, promptTokens int32) *Answer {
	return &Answer{m: Message{ID: "msg_" + id, Type: "message", Role: "assistant", Model: model, Content: []block{}, Usage: usage{InputTokens: promptTokens}}}
}

// stopReasons are what this API calls the ends of answers.
var stopReasons = map[string]string{"stop": "end_turn", "length": "max_tokens"}

// Push takes a chunk in.
func (a *Answer) Push(c *pb.Chunk) {
	a.text.WriteString(c.Text)
	if len(c.TokenIds) > 0 {
		a.m.Usage.OutputTokens = c.Index + 1
	}
	if c.FinishReason != "" {
		a.m.StopReason = new(stopReasons[c.FinishReason])
		a.m.Usage.OutputTokens = c.GetUsage().GetCompletionTokens()
	}
}

// Whole is the message.
func (a *Answer) Whole() any {
	m := a.m
	m.Content = []block{{"text", a.text.String()}}
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

// Begin are the events before the first token.
func (a *Answer) Begin() []Event {
	return []Event{
		{Name: "message_start", Message: &a.m},
		{Name: "content_block_start", Index: new(0), Block: &block{Type: "text"}},
	}
}

// Token is the event of a chunk that was pushed; false: it has none.
func (a *Answer) Token(c *pb.Chunk) (Event, bool) {
	return Event{Name: "content_block_delta", Index: new(0), Delta: block{"text_delta", c.Text}}, c.Text != ""
}

// End are the events behind the last token.
func (a *Answer) End() []Event {
	return []Event{
		{Name: "content_block_stop", Index: new(0)},
		{Name: "message_delta", Delta: struct {
			StopReason   *string `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		}{a.m.StopReason, nil}, Usage: &a.m.Usage},
		{Name: "message_stop"},
	}
}
