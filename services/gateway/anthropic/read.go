// Package anthropic reads bodies of Anthropic's Messages, and writes their answers: messages,
// events and errors in that API's own forms.
package anthropic

import (
	"context"
	"encoding/json"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/conversation"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// Ask is what a body asks for.
type Ask struct {
	Model  string
	Prompt *pb.Prompt
	Stream bool
}

// Read reads the body of a message.
func Read(ctx context.Context, body []byte) (*Ask, error) { return read(ctx, body, fields.Messages) }

// ReadCount reads that of a count, which makes no tokens.
func ReadCount(ctx context.Context, body []byte) (*Ask, error) {
	return read(ctx, body, fields.CountTokens)
}

func read(ctx context.Context, body []byte, route *fields.Route) (*Ask, error) {
	o, err := openai.Open(ctx, body, route)
	if err != nil {
		return nil, err
	}
	a := &Ask{Model: openai.Or(o, "model", ""), Stream: openai.Or(o, "stream", false), Prompt: &pb.Prompt{Parse: true}}
	if a.Model == "" {
		o.Fail(openai.Bad("model", "model: Field required"))
	}
	p := a.Prompt
	p.MaxTokens = openai.Take[int32](o, "max_tokens")
	if route == fields.Messages && (p.MaxTokens == nil || *p.MaxTokens < 1) {
		o.Fail(openai.Bad("max_tokens", "max_tokens: Field required; it must be 1 or more"))
	}
	p.Temperature, p.TopP, p.TopK = openai.Take[float64](o, "temperature"), openai.Take[float64](o, "top_p"), openai.Take[int32](o, "top_k")
	p.Stop, p.Brownout = openai.Or[[]string](o, "stop_sequences", nil), openai.Or(o, "brownout", "")
	said := turns(o)
	p.Messages, p.ContinueFinal = said.Messages(), said.Begun()
	openai.Thinking(o, p)
	form(o, p)
	tools(o, p)
	return a, o.End()
}

// form takes the form that an answer is to have, and how much is to be thought.
func form(o *openai.Object, p *pb.Prompt) {
	formats := []*openai.Object{o.Inner("output_format")}
	config := o.Inner("output_config")
	if config != nil {
		openai.Effort(config, "effort", p)
		formats = append(formats, config.Inner("format"))
	}
	for _, of := range formats {
		g := &pb.Grammar{Compact: true}
		if openai.Format(of, g) {
			p.Grammar = g
		}
		if of != nil {
			o.EndOf(of)
		}
	}
	if config != nil {
		o.EndOf(config)
	}
}

// tools takes those that the client runs itself. Others, whose types name them, are offers of
// Anthropic's servers: they are left out.
func tools(o *openai.Object, p *pb.Prompt) {
	var list []json.RawMessage
	var names []string
	for _, in := range o.List("tools") {
		if openai.Or(in, "type", "custom") != "custom" {
			continue
		}
		f := conversation.Function{Name: openai.Or(in, "name", ""), Description: openai.Take[string](in, "description"), Parameters: in.Raw("input_schema")}
		if f.Name == "" {
			in.Fail(openai.Bad(in.At("name"), "%s: Field required", in.At("name")))
		}
		if f.Parameters != nil && f.Parameters[0] != '{' {
			in.Fail(openai.Bad(in.At("input_schema"), "%s: Input should be an object", in.At("input_schema")))
		}
		o.EndOf(in)
		if o.Err() != nil {
			return
		}
		list, names = append(list, f.Tool()), append(names, f.Name)
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
		in.Fail(openai.Bad(in.At("type"), "%s is %.40q; it can be auto, any, tool or none", in.At("type"), kind))
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
