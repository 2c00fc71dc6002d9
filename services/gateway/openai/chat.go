package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/reply"
)

// ReadChat reads the body of a chat.
func ReadChat(body []byte) (*Ask, error) {
	o, err := Open(body, fields.Chat)
	if err != nil {
		return nil, err
	}
	a := &Ask{Chat: true, IDs: Or(o, "return_token_ids", false)}
	p := common(o, a)
	p.Parse = true
	p.MaxTokens = a.maxTokens(o, "max_completion_tokens", "max_tokens")
	p.Messages = messages(o)
	tools(o, p)
	template(o, p)
	if err := chatLogprobs(o, a); err != nil {
		o.Fail(err)
	}
	p.Logprobs = a.Logprobs
	a.Rest, a.Names["logprobs"], a.Names["input_ids"] = false, "top_logprobs", "messages" // a chat has what is left without saying so
	a.Thoughts = Or(o, "include_reasoning", true)
	a.Prompts = []*pb.Prompt{p}
	return a, o.End()
}

func chatLogprobs(o *Object, a *Ask) *reply.Error {
	given, top := Or(o, "logprobs", false), Take[int32](o, "top_logprobs")
	switch {
	case top != nil && *top != 0 && !given:
		return reply.Bad("top_logprobs", "top_logprobs needs logprobs to be true")
	case given && top == nil:
		a.Logprobs = new(int32(0))
	case given:
		a.Logprobs = top
	}
	return nil
}

// template takes variables for the chat template. Those that the client names itself come before
// what other fields say.
func template(o *Object, p *pb.Prompt) {
	if raw := o.Peek("chat_template_kwargs"); raw != nil && Take[map[string]json.RawMessage](o, "chat_template_kwargs") != nil {
		p.ChatTemplateKwargs = string(raw) // as it is written, its keys in their order
	}
	Effort(o, "reasoning_effort", p)
	if documents := Take[[]map[string]json.RawMessage](o, "documents"); documents != nil {
		variable(p, "documents", *documents)
	}
	if begin := Take[bool](o, "add_generation_prompt"); begin != nil && !*begin {
		variable(p, "add_generation_prompt", false)
	}
}

// Effort takes how much is to be thought, which templates that know it read as a variable.
func Effort(o *Object, name string, p *pb.Prompt) {
	if effort := Take[string](o, name); effort != nil {
		variable(p, "reasoning_effort", *effort)
	}
}

// variable gives the chat template one more, unless it has it.
func variable(p *pb.Prompt, name string, value any) {
	given := strings.TrimSpace(cmp.Or(p.ChatTemplateKwargs, "{}"))
	var names map[string]json.RawMessage
	_ = json.Unmarshal([]byte(given), &names) // which it was read as before
	if _, has := names[name]; has {
		return
	}
	one, _ := json.Marshal(map[string]any{name: value}) // of what was JSON
	if len(names) > 0 {
		one = append([]byte(","), one[1:]...)
		p.ChatTemplateKwargs = strings.TrimSuffix(given, "}") + string(one)
		return
	}
	p.ChatTemplateKwargs = string(one)
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
		o.Fail(reply.Bad("messages", "messages is missing or empty; at least one message is needed"))
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

func message(in *Object) (*pb.ChatMessage, *reply.Error) {
	m := &pb.ChatMessage{Role: Or(in, "role", ""), Name: Or(in, "name", ""), ToolCallId: Or(in, "tool_call_id", "")}
	if m.Role == "" {
		in.Fail(reply.Bad(in.At("role"), "%s is missing", in.At("role")))
	}
	m.Content = Content(in)
	m.ReasoningContent = Or(in, "reasoning_content", Or(in, "reasoning", ""))
	m.ToolCalls = toolCalls(in)
	if in.End() != nil {
		return nil, in.err
	}
	if m.Content == nil && m.ToolCalls == "" {
		if m.Role != "assistant" {
			return nil, reply.Bad(in.At("content"), "%s is missing", in.At("content"))
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
			in.Fail(reply.Unsupported(part.At(""), fmt.Sprintf("a part of type %.40q is no text", kind)))
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
		part.Fail(reply.Bad(part.At("text"), "%s is missing", part.At("text")))
		return ""
	}
	return *text
}

// Arguments are a call's, as the values that they are.
func Arguments(text string) json.RawMessage {
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
		if json.Unmarshal(function["arguments"], &arguments) == nil {
			function["arguments"] = Arguments(arguments)
			call["function"], _ = json.Marshal(function) // of what was JSON
		}
	}
	list, _ := json.Marshal(calls) // as above
	return string(list)
}
