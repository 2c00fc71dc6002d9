// Package anthropic reads bodies of Anthropic's Messages, and writes their answers: messages,
// events and errors in that API's own forms.
package anthropic

import (
	"encoding/json"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/reply"
)

// Ask is what a body asks for.
type Ask struct {
	Model  string
	Prompt *pb.Prompt
	Stream bool
}

// Read reads the body of a message.
func Read(body []byte) (*Ask, error) { return read(body, fields.Messages) }

// ReadCount reads that of a count, which makes no tokens.
func ReadCount(body []byte) (*Ask, error) { return read(body, fields.CountTokens) }

func read(body []byte, route *fields.Route) (*Ask, error) {
	o, err := openai.Open(body, route)
	if err != nil {
		return nil, err
	}
	a := &Ask{Model: openai.Or(o, "model", ""), Stream: openai.Or(o, "stream", false), Prompt: &pb.Prompt{Parse: true}}
	if a.Model == "" {
		o.Fail(reply.Bad("model", "model: Field required"))
	}
	p := a.Prompt
	p.MaxTokens = openai.Take[int32](o, "max_tokens")
	if route == fields.Messages && (p.MaxTokens == nil || *p.MaxTokens < 1) {
		o.Fail(reply.Bad("max_tokens", "max_tokens: Field required; it must be 1 or more"))
	}
	p.Temperature, p.TopP, p.TopK = openai.Take[float64](o, "temperature"), openai.Take[float64](o, "top_p"), openai.Take[int32](o, "top_k")
	p.Stop, p.Brownout = openai.Or[[]string](o, "stop_sequences", nil), openai.Or(o, "brownout", "")
	if system := openai.Content(o.As("system", "content")); system != nil && *system != "" {
		p.Messages = append(p.Messages, &pb.ChatMessage{Role: "system", Content: system})
	}
	all := o.List("messages")
	if len(all) == 0 {
		o.Fail(reply.Bad("messages", "messages: at least one message is required"))
	}
	for _, in := range all {
		p.Messages = append(p.Messages, messages(in)...)
		o.EndOf(in)
	}
	tools(o, p)
	return a, o.End()
}

func tools(o *openai.Object, p *pb.Prompt) {
	var list []json.RawMessage
	var names []string
	for _, in := range o.List("tools") {
		name, schema := openai.Or(in, "name", ""), in.Raw("input_schema")
		if name == "" {
			in.Fail(reply.Bad(in.At("name"), "%s: Field required", in.At("name")))
		}
		if schema != nil && schema[0] != '{' {
			in.Fail(reply.Bad(in.At("input_schema"), "%s: Input should be an object", in.At("input_schema")))
		}
		tool, _ := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
			"name": name, "description": openai.Or(in, "description", ""), "parameters": schema,
		}}) // of what was JSON
		list, names = append(list, tool), append(names, name)
		o.EndOf(in)
	}
	choice := toolChoice(o, p)
	if o.Err() == nil {
		if err := choice.Ask(p, names, list); err != nil {
			o.Fail(err)
		}
	}
}

// modes are what this API calls the choices of calls.
var modes = map[string]string{"auto": "auto", "none": "none", "any": "required", "tool": "required"}

func toolChoice(o *openai.Object, p *pb.Prompt) openai.ToolChoice {
	c := openai.ToolChoice{Mode: "auto"}
	in := o.Inner("tool_choice")
	if in == nil {
		return c
	}
	kind := openai.Or(in, "type", "")
	if c.Mode = modes[kind]; c.Mode == "" {
		in.Fail(reply.Bad(in.At("type"), "%s is %.40q; it can be auto, any, tool or none", in.At("type"), kind))
	}
	if kind == "tool" {
		c.Only = []string{openai.Or(in, "name", "")}
	}
	if openai.Or(in, "disable_parallel_tool_use", false) {
		p.ParallelToolCalls = new(false)
	}
	o.EndOf(in)
	return c
}

// messages are those that one of Anthropic's becomes: results of tools are messages of their own.
func messages(in *openai.Object) (out []*pb.ChatMessage) {
	role := openai.Or(in, "role", "")
	if role != "user" && role != "assistant" && role != "system" {
		in.Fail(reply.Bad(in.At("role"), "%s must be user or assistant", in.At("role")))
	}
	raw := in.Raw("content")
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		return []*pb.ChatMessage{{Role: role, Content: &text}}
	}
	in.Put("content", raw)
	said := &pb.ChatMessage{Role: role}
	var texts []string
	var calls []any
	for _, block := range in.List("content") {
		switch kind := openai.Or(block, "type", ""); kind {
		case "text":
			texts = append(texts, openai.TextOf(block))
		case "thinking":
			said.ReasoningContent += openai.Or(block, "thinking", "")
		case "redacted_thinking":
		case "tool_use":
			input := block.Raw("input")
			if len(input) > 0 && input[0] != '{' {
				block.Fail(reply.Bad(block.At("input"), "%s: Input should be an object", block.At("input")))
			}
			calls = append(calls, map[string]any{"id": openai.Or(block, "id", ""), "type": "function", "function": map[string]any{
				"name": openai.Or(block, "name", ""), "arguments": input,
			}})
		case "tool_result":
			result := openai.Content(block)
			if result == nil {
				result = new("")
			}
			out = append(out, &pb.ChatMessage{Role: "tool", ToolCallId: openai.Or(block, "tool_use_id", ""), Content: result})
		default:
			in.Fail(reply.Unsupported(block.At("type"), "a block of type "+kind+" is no text"))
		}
		if err := block.Err(); err != nil {
			in.Fail(reply.Of(err, 0))
		}
	}
	if len(calls) > 0 {
		list, _ := json.Marshal(calls) // of what was JSON
		said.ToolCalls = string(list)
	}
	if len(texts) > 0 || len(calls) > 0 || len(out) == 0 {
		said.Content = new(strings.Join(texts, ""))
		out = append(out, said)
	}
	return out
}
