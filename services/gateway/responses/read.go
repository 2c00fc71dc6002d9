// Package responses reads bodies of OpenAI's Responses, and writes what they answer: objects,
// and events whose numbers follow from the answer's tokens alone. So a client that lost its
// stream goes on behind the last number it has seen, at whichever gateway.
package responses

import (
	"encoding/json"
	"fmt"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/reply"
)

// Ask is what a body asks for.
type Ask struct {
	Model              string
	Prompt             *pb.Prompt
	Stream, Background bool
	// Shown are the fields that the object repeats.
	Shown Shown
}

// Shown are fields of a request that its object repeats. A gateway that did not see the
// request shows what they are by default.
type Shown struct {
	Instructions    *string           `json:"instructions"`
	MaxOutputTokens *int32            `json:"max_output_tokens"`
	Metadata        map[string]string `json:"metadata"`
	Temperature     *float64          `json:"temperature"`
	TopP            *float64          `json:"top_p"`
	User            *string           `json:"user"`
	Store           bool              `json:"store"`
	Background      bool              `json:"background"`
	Tools           []json.RawMessage `json:"tools"`
	ToolChoice      json.RawMessage   `json:"tool_choice"`

	ParallelToolCalls bool `json:"parallel_tool_calls"`
}

// DefaultShown is what is shown of a request that is not known.
func DefaultShown() Shown {
	return Shown{Metadata: map[string]string{}, Store: true, Tools: []json.RawMessage{}, ToolChoice: json.RawMessage(`"auto"`), ParallelToolCalls: true}
}

// Names are what this API calls fields that the services name otherwise.
func Names() map[string]string {
	return map[string]string{"max_tokens": "max_output_tokens", "messages": "input", "input_ids": "input", "grammar": "text.format"}
}

// Read reads a body.
func Read(body []byte) (*Ask, error) {
	o, err := openai.Open(body, fields.Responses)
	if err != nil {
		return nil, err
	}
	a := &Ask{Model: openai.Or(o, "model", ""), Stream: openai.Or(o, "stream", false), Shown: DefaultShown()}
	if a.Model == "" {
		o.Fail(reply.Bad("model", "you must provide a model parameter"))
	}
	s := &a.Shown
	a.Background = openai.Or(o, "background", false)
	s.Background, s.Store = a.Background, openai.Or(o, "store", true)
	s.Instructions = openai.Take[string](o, "instructions")
	s.Metadata = openai.Or(o, "metadata", s.Metadata)
	s.Temperature, s.TopP = openai.Take[float64](o, "temperature"), openai.Take[float64](o, "top_p")
	s.User = openai.Take[string](o, "user")
	if s.MaxOutputTokens = openai.Take[int32](o, "max_output_tokens"); s.MaxOutputTokens != nil && *s.MaxOutputTokens == openai.AllThatIsLeft {
		s.MaxOutputTokens = nil
	}
	a.Prompt = &pb.Prompt{Temperature: s.Temperature, TopP: s.TopP, MaxTokens: s.MaxOutputTokens, Parse: true, Brownout: openai.Or(o, "brownout", "")}
	if s.Instructions != nil && *s.Instructions != "" {
		a.Prompt.Messages = append(a.Prompt.Messages, &pb.ChatMessage{Role: "system", Content: s.Instructions})
	}
	a.Prompt.Messages = append(a.Prompt.Messages, input(o)...)
	form(o, a.Prompt)
	tools(o, a)
	effort(o, a.Prompt)
	return a, o.End()
}

// form takes the form that an answer is to have.
func form(o *openai.Object, p *pb.Prompt) {
	in := o.Inner("text")
	if in == nil {
		return
	}
	of, g := in.Inner("format"), &pb.Grammar{Compact: true}
	if openai.Format(of, g) {
		p.Grammar = g
	}
	if of != nil && of.Err() != nil {
		o.Fail(reply.Of(of.Err(), 0))
	}
	in.Refuse("it is not served here", "verbosity")
	o.EndOf(in)
}

// effort takes how much is to be thought, as a chat does.
func effort(o *openai.Object, p *pb.Prompt) {
	in := o.Inner("reasoning")
	if in == nil {
		return
	}
	openai.Effort(in, "effort", p)
	in.Ignore("summary", "generate_summary")
	o.EndOf(in)
}

// tools takes functions, in the form that chat templates know.
func tools(o *openai.Object, a *Ask) {
	shown := o.Peek("tool_choice")
	given := openai.ReadTools(o, a.Prompt, functions)
	if given != nil {
		a.Shown.Tools = given
	}
	if shown != nil {
		a.Shown.ToolChoice = shown
	}
	if a.Prompt.ParallelToolCalls != nil {
		a.Shown.ParallelToolCalls = *a.Prompt.ParallelToolCalls
	}
}

// functions are tools as chat templates know them, and their names.
func functions(o *openai.Object, given []json.RawMessage) (names []string, list []json.RawMessage) {
	for i, raw := range given {
		in, err := openai.ParseAt(raw, fmt.Sprintf("tools[%d]", i))
		if err != nil {
			o.Fail(err)
			return nil, nil
		}
		if kind := openai.Or(in, "type", ""); kind != "function" {
			o.Fail(reply.Unsupported(in.At("type"), "only functions can be called"))
			return nil, nil
		}
		in.Ignore("strict")
		function := in.Rest() // of what was JSON
		names = append(names, openai.CheckFunction(in))
		if err := in.Err(); err != nil {
			o.Fail(reply.Of(err, 0))
			return nil, nil
		}
		list = append(list, json.RawMessage(`{"type":"function","function":`+string(function)+`}`))
	}
	return names, list
}

// input is a user's text, or items of a conversation.
func input(o *openai.Object) (out []*pb.ChatMessage) {
	raw := o.Raw("input")
	var text string
	if raw != nil && json.Unmarshal(raw, &text) == nil {
		return []*pb.ChatMessage{{Role: "user", Content: &text}}
	}
	o.Put("input", raw)
	for _, item := range o.List("input") {
		if m := message(item); m != nil {
			out = append(out, m)
		}
		if err := item.Err(); err != nil {
			o.Fail(reply.Of(err, 0))
			return nil
		}
	}
	if len(out) == 0 {
		o.Fail(reply.Bad("input", "input is missing or empty; it must be a text, or a list of items"))
	}
	return out
}

// message is an item as a message; nil: it is none.
func message(item *openai.Object) *pb.ChatMessage {
	switch kind := openai.Or(item, "type", "message"); kind {
	case "message":
		role := openai.Or(item, "role", "user")
		return &pb.ChatMessage{Role: role, Content: openai.Content(item)}
	case "function_call":
		call, _ := json.Marshal([]any{map[string]any{"id": openai.Or(item, "call_id", ""), "type": "function", "function": map[string]any{
			"name": openai.Or(item, "name", ""), "arguments": openai.Arguments(openai.Or(item, "arguments", "{}")),
		}}}) // of strings
		return &pb.ChatMessage{Role: "assistant", Content: new(""), ToolCalls: string(call)}
	case "function_call_output":
		return &pb.ChatMessage{Role: "tool", ToolCallId: openai.Or(item, "call_id", ""), Content: openai.Content(item.As("output", "content"))}
	case "reasoning":
		return nil
	default:
		item.Fail(reply.Unsupported(item.At("type"), "an item of type "+kind+" is none of a conversation"))
		return nil
	}
}
