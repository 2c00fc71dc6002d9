package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/conversation"
	"github.com/switchyard/switchyard/services/gateway/fields"
)

// ReadChat reads the body of a chat.
func ReadChat(ctx context.Context, body []byte) (*Ask, error) {
	o, err := Open(ctx, body, fields.Chat)
	if err != nil {
		return nil, err
	}
	a := &Ask{Chat: true, IDs: Or(o, "return_token_ids", false)}
	p := common(o, a)
	p.Parse = true
	p.MaxTokens = a.maxTokens(o, "max_completion_tokens", "max_tokens")
	messages(o, p)
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

// template takes variables for the chat template. Those that the client names itself come before
// what other fields say.
func template(o *Object, p *pb.Prompt) {
	if raw := o.Peek("chat_template_kwargs"); raw != nil && Take[map[string]json.RawMessage](o, "chat_template_kwargs") != nil {
		p.ChatTemplateKwargs = string(raw) // as it is written, its keys in their order
	}
	Effort(o, "reasoning_effort", p)
	Hint(o, "verbosity", p)
	if in := o.Inner("reasoning"); in != nil {
		Effort(in, "effort", p)
		in.Ignore("summary", "generate_summary", "max_tokens", "exclude", "enabled")
		o.EndOf(in)
	}
	Thinking(o, p)
	if think := Take[bool](o, "enable_thinking"); think != nil {
		thinking(p, *think)
	}
	if documents := Take[[]map[string]json.RawMessage](o, "documents"); documents != nil {
		Variable(p, "documents", *documents)
	}
	if begin := Take[bool](o, "add_generation_prompt"); begin != nil && !*begin {
		Variable(p, "add_generation_prompt", false)
	}
}

// Effort takes how much is to be thought, which templates that know it read as a variable.
func Effort(o *Object, name string, p *pb.Prompt) {
	if effort := Take[string](o, name); effort != nil {
		Variable(p, "reasoning_effort", *effort)
	}
}

// Thinking takes whether there are to be thoughts. How many there are is the model's.
func Thinking(o *Object, p *pb.Prompt) {
	in := o.Inner("thinking")
	if in == nil {
		return
	}
	switch kind := Or(in, "type", ""); kind {
	case "adaptive", "auto": // the model decides
	case "enabled", "disabled":
		thinking(p, kind == "enabled")
	default:
		in.Fail(Bad(in.At("type"), "%s is %.40q; it can be enabled, disabled or adaptive", in.At("type"), kind))
	}
	o.EndOf(in)
}

// thinking tells templates that can leave thoughts out, under both of the names that they have for it.
func thinking(p *pb.Prompt, wanted bool) {
	Variable(p, "enable_thinking", wanted)
	Variable(p, "thinking", wanted)
}

// Hint takes what may be left: a template that knows it reads it as a variable of its name.
func Hint(o *Object, name string, p *pb.Prompt) {
	if hint := Take[string](o, name); hint != nil {
		Variable(p, name, *hint)
	}
}

// Variable gives the chat template one more, unless it has it.
func Variable(p *pb.Prompt, name string, value any) {
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
func tools(o *Object, p *pb.Prompt) { ReadTools(o, p, functionIn) }

// functionIn reads a tool as chats have them. Kinds that others run are offers that are left out.
func functionIn(in *Object) (f conversation.Function, usable bool) {
	switch kind := Or(in, "type", ""); {
	case kind != "function" && offered(kind):
		return f, false
	case kind != "function":
		in.Fail(Unsupported(in.At("type"), `it can only be "function"`))
	}
	of := in.Inner("function")
	if of == nil {
		in.Fail(Bad(in.At("function"), "%s is missing", in.At("function")))
		return f, false
	}
	f = ReadFunction(of)
	f.More = of.fields
	if of.err != nil {
		in.Fail(of.err)
	}
	return f, true
}

// offers are kinds of tools that are run elsewhere, or whose calls have a form that no model here
// was told of. Names of some go on with a version.
var offers = []string{"custom", "namespace", "web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "image_generation", "mcp", "computer", "local_shell", "shell", "apply_patch", "tool_search"}

// offered reports whether a kind of tools is one that is known, and not of functions.
func offered(kind string) bool {
	return slices.ContainsFunc(offers, func(known string) bool {
		rest, begins := strings.CutPrefix(kind, known)
		return begins && (rest == "" || rest[0] == '_')
	})
}

// messages takes the conversation.
func messages(o *Object, p *pb.Prompt) {
	all := o.List("messages")
	if len(all) == 0 {
		o.Fail(Bad("messages", "messages is missing or empty; at least one message is needed"))
	}
	said, field := &conversation.Conversation{}, ""
	for _, in := range all {
		if field != "" {
			o.Fail(Bad(field, "%s is of the last message alone", field))
			return
		}
		field = begun(in)
		turn(in, said)
		if o.EndOf(in); o.err != nil {
			return
		}
	}
	if Or(o, "continue_final_message", false) {
		field = "continue_final_message"
	}
	p.Messages, p.ContinueFinal = said.Messages(), field != ""
	if p.ContinueFinal && !said.Begun() {
		o.Fail(Bad(field, "%s needs a last message of the assistant with text and without calls", field))
	}
}

// begun is the field by which a message is the beginning of the answer, as DeepSeek's and Mistral's
// clients have it, or Moonshot's; empty: it is none.
func begun(in *Object) (field string) {
	for _, name := range []string{"prefix", "partial"} {
		if Or(in, name, false) {
			field = in.At(name)
		}
	}
	return field
}

// turn takes a message.
func turn(in *Object, said *conversation.Conversation) {
	t := said.Begin(Or(in, "role", ""))
	if t.Role == "" {
		in.Fail(Bad(in.At("role"), "%s is missing", in.At("role")))
	}
	t.Name, t.Answers = Or(in, "name", ""), Or(in, "tool_call_id", "")
	text := Content(in)
	if text != nil {
		t.Text.Add(*text)
	}
	t.Thoughts.Add(Or(in, "reasoning_content", Or(in, "reasoning", "")))
	in.Raw("reasoning")
	t.Calls = toolCalls(in)
	if text == nil && len(t.Calls) == 0 && t.Role != conversation.Assistant {
		in.Fail(Bad(in.At("content"), "%s is missing", in.At("content")))
	}
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

// toolCalls are an assistant's calls.
func toolCalls(in *Object) (out []conversation.Call) {
	for _, call := range in.List("tool_calls") {
		one := conversation.Call{ID: Or(call, "id", "")}
		if custom := call.Inner("custom"); custom != nil {
			one.Name, one.Arguments = Or(custom, "name", ""), FreeForm(Or(custom, "input", ""))
		} else if f := call.Inner("function"); f != nil {
			one.Name, one.Arguments = Or(f, "name", ""), Arguments(f)
		}
		if one.Name == "" {
			call.Fail(Bad(call.At("function"), "%s has no name", call.At("function")))
		}
		if call.err != nil {
			in.Fail(call.err)
		}
		out = append(out, one)
	}
	return out
}

// Arguments are a call's: a text of JSON, as OpenAI's APIs have them, or the values that they are.
func Arguments(f *Object) json.RawMessage {
	raw := f.Raw("arguments")
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		return conversation.Arguments(text)
	}
	return raw
}

// FreeForm are the arguments of a tool whose input is a text of no form.
func FreeForm(input string) json.RawMessage {
	out, _ := json.Marshal(map[string]string{"input": input}) // of a string it cannot fail
	return out
}
