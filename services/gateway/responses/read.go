// Package responses reads bodies of OpenAI's Responses, and writes what they answer: objects,
// and events whose numbers follow from the answer's tokens alone. So a client that lost its
// stream goes on behind the last number it has seen, at whichever gateway.
package responses

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/conversation"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
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
	// Sealed says that thoughts are told as encrypted_content, too.
	Sealed bool `json:"-"`
}

// Bytes are about those that each object repeats.
func (s *Shown) Bytes() (n int64) {
	for _, tool := range s.Tools {
		n += int64(len(tool))
	}
	for name, value := range s.Metadata {
		n += int64(len(name) + len(value))
	}
	if s.Instructions != nil {
		n += int64(len(*s.Instructions))
	}
	return n + int64(len(s.ToolChoice))
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
func Read(ctx context.Context, body []byte) (*Ask, error) {
	o, err := openai.Open(ctx, body, fields.Responses)
	if err != nil {
		return nil, err
	}
	a := &Ask{Model: openai.Or(o, "model", ""), Stream: openai.Or(o, "stream", false), Shown: DefaultShown()}
	if a.Model == "" {
		o.Fail(openai.Bad("model", "you must provide a model parameter"))
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
	said := &conversation.Conversation{}
	if s.Instructions != nil && *s.Instructions != "" {
		said.Begin(conversation.System).Text.Add(*s.Instructions)
	}
	input(o, said)
	a.Prompt.Messages = said.Messages()
	form(o, a.Prompt)
	tools(o, a)
	effort(o, a.Prompt)
	include(o, a)
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
		o.Fail(openai.ErrorOf(of.Err(), 0))
	}
	openai.Hint(in, "verbosity", p)
	o.EndOf(in)
}

// effort takes how much is to be thought, as a chat does.
func effort(o *openai.Object, p *pb.Prompt) {
	in := o.Inner("reasoning")
	if in == nil {
		return
	}
	openai.Effort(in, "effort", p)
	in.Ignore("summary", "generate_summary", "context")
	o.EndOf(in)
}

// included are what clients may ask for by default: it is of tools that are not here, or not made.
var included = []string{
	"file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
	"computer_call_output.output.image_url", "code_interpreter_call.outputs",
}

// include takes what is to be told beside an answer, and refuses what cannot be.
func include(o *openai.Object, a *Ask) {
	for _, what := range openai.Or[[]string](o, "include", nil) {
		switch {
		case what == "reasoning.encrypted_content":
			a.Shown.Sealed = true
		case !slices.Contains(included, what):
			o.Fail(openai.Unsupported("include", fmt.Sprintf("%.40q is not served here", what)))
		}
	}
}

// tools takes functions, in the form that chat templates know.
func tools(o *openai.Object, a *Ask) {
	shown := o.Peek("tool_choice")
	given := openai.ReadTools(o, a.Prompt, function)
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

// function reads a tool. All kinds but functions are offers of OpenAI's servers, or have calls in
// a form of their own: they are left out.
func function(in *openai.Object) (f conversation.Function, usable bool) {
	kind := openai.Or(in, "type", "")
	if kind == "" {
		in.Fail(openai.Bad(in.At("type"), "%s is missing", in.At("type")))
	}
	if kind != "function" {
		return f, false
	}
	return openai.ReadFunction(in), true
}
