package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ReadChat reads the body of a chat.
func ReadChat(body []byte) (*Ask, error) {
	o, err := Parse(body)
	if err != nil {
		return nil, err
	}
	a := &Ask{Chat: true}
	p := common(o, a)
	p.Parse = true
	p.MaxTokens = maxTokens(o, "max_completion_tokens", "max_tokens")
	p.Messages = messages(o)
	tools(o, p)
	template(o, p)
	if err := chatLogprobs(o, a); err != nil {
		o.Fail(err)
	}
	p.Logprobs = a.Logprobs
	if modes := Or[[]string](o, "modalities", nil); len(modes) > 1 || len(modes) == 1 && modes[0] != "text" {
		o.Fail(Unsupported("modalities", "answers are text"))
	}
	o.Refuse("answers are text of the model alone", "audio", "web_search_options", "functions", "function_call", "verbosity")
	o.Ignore("add_generation_prompt", "add_special_tokens", "documents", "separate_reasoning", "include_reasoning")
	a.Prompts = []*pb.Prompt{p}
	return a, o.End()
}

func chatLogprobs(o *Object, a *Ask) *Error {
	given, top := Or(o, "logprobs", false), Take[int32](o, "top_logprobs")
	switch {
	case top != nil && *top != 0 && !given:
		return Bad("top_logprobs", "top_logprobs needs logprobs to be true")
	case given && top == nil:
		a.Logprobs = new(int32(0))
	case given:
		a.Logprobs = top
	}
	return nil
}

// template takes variables for the chat template.
func template(o *Object, p *pb.Prompt) {
	if raw := o.Raw("chat_template_kwargs"); raw != nil {
		if bytes.TrimSpace(raw)[0] != '{' {
			o.Fail(Bad("chat_template_kwargs", "chat_template_kwargs must be an object"))
		}
		p.ChatTemplateKwargs = string(raw)
	}
	Effort(o, "reasoning_effort", p)
	o.Refuse("the model's own template is used", "chat_template", "continue_final_message")
}

// Effort takes how much is to be thought, which templates that know it read as a variable.
func Effort(o *Object, name string, p *pb.Prompt) {
	effort := Take[string](o, name)
	if effort != nil && p.ChatTemplateKwargs == "" {
		quoted, _ := json.Marshal(*effort) // of a string it cannot fail
		p.ChatTemplateKwargs = `{"reasoning_effort":` + string(quoted) + `}`
	}
}

// tools takes what the model may call.
func tools(o *Object, p *pb.Prompt) {
	ReadTools(o, p, func(o *Object, all []json.RawMessage) ([]string, []json.RawMessage) {
		return functionNames(o, all), all
	})
}

// messages takes the conversation.
func messages(o *Object) (out []*pb.ChatMessage) {
	all := o.List("messages")
	if len(all) == 0 {
		o.Fail(Bad("messages", "messages is missing or empty; at least one message is needed"))
	}
	for _, in := range all {
		m, err := message(in)
		if err != nil {
			o.Fail(err)
			return nil
		}
		out = append(out, m)
	}
	return out
}

func message(in *Object) (*pb.ChatMessage, *Error) {
	m := &pb.ChatMessage{Role: Or(in, "role", ""), Name: Or(in, "name", ""), ToolCallId: Or(in, "tool_call_id", "")}
	if m.Role == "" {
		in.Fail(Bad(in.At("role"), "%s is missing", in.At("role")))
	}
	m.Content = Content(in)
	m.ReasoningContent = Or(in, "reasoning_content", Or(in, "reasoning", ""))
	m.ToolCalls = toolCalls(in)
	in.Ignore("refusal", "annotations", "audio", "id", "provider_specific_fields", "thinking_blocks", "reasoning", "reasoning_details", "index")
	in.Refuse("tool_calls take its place", "function_call")
	if in.End() != nil {
		return nil, in.err
	}
	if m.Content == nil && m.ToolCalls == "" {
		if m.Role != "assistant" {
			return nil, Bad(in.At("content"), "%s is missing", in.At("content"))
		}
		m.Content = new("")
	}
	return m, nil
}

// Content is a string, or the text of parts.
func Content(in *Object) *string {
	raw := in.Raw("content")
	if raw == nil {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return &text
	}
	in.fields["content"] = raw
	var texts []string
	for _, part := range in.List("content") {
		kind := Or(part, "type", "text")
		switch kind {
		case "text", "input_text", "output_text":
			texts = append(texts, TextOf(part))
		case "refusal":
			texts = append(texts, Or(part, "refusal", ""))
		default:
			in.Fail(Unsupported(part.At(""), fmt.Sprintf("a part of type %.40q is no text", kind)))
		}
		if part.err != nil {
			in.Fail(part.err)
		}
	}
	joined := strings.Join(texts, "")
	return &joined
}

// TextOf is a part's text, which it must have.
func TextOf(part *Object) string {
	text := Take[string](part, "text")
	if text == nil {
		part.Fail(Bad(part.At("text"), "%s is missing", part.At("text")))
		return ""
	}
	return *text
}

// Arguments are a call's, as the values that they are. None at all are an empty object.
func Arguments(text string) json.RawMessage {
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == "null" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // of a string it cannot fail
	return quoted
}

// toolCalls are an assistant's calls for the chat template, which wants arguments as the values
// that they are, and not as a string of JSON.
func toolCalls(in *Object) string {
	calls := Or[[]map[string]json.RawMessage](in, "tool_calls", nil)
	if len(calls) == 0 {
		return ""
	}
	for _, call := range calls {
		var function map[string]json.RawMessage
		if json.Unmarshal(call["function"], &function) != nil {
			continue
		}
		var arguments string
		if raw := function["arguments"]; function != nil && (raw == nil || json.Unmarshal(raw, &arguments) == nil) {
			function["arguments"] = Arguments(arguments)
			call["function"], _ = json.Marshal(function) // of what was JSON
		}
	}
	list, _ := json.Marshal(calls) // as above
	return string(list)
}
