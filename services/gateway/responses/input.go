package responses

import (
	"encoding/json"
	"fmt"

	"github.com/switchyard/switchyard/services/gateway/conversation"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// input takes a user's text, or items of a conversation.
func input(o *openai.Object, said *conversation.Conversation) {
	raw := o.Raw("input")
	var text string
	if raw != nil && json.Unmarshal(raw, &text) == nil {
		said.Begin(conversation.User).Text.Add(text)
		return
	}
	o.Put("input", raw)
	all := o.List("input")
	for _, in := range all {
		take(in, said)
		if err := in.Err(); err != nil {
			o.Fail(openai.ErrorOf(err, 0))
			return
		}
	}
	if len(all) == 0 {
		o.Fail(openai.Bad("input", "input is missing or empty; it must be a text, or a list of items"))
	}
}

// take takes an item. What an assistant thinks, says and calls, one item behind the other, is one
// turn.
func take(in *openai.Object, said *conversation.Conversation) {
	switch kind := openai.Or(in, "type", kindMessage); kind {
	case kindMessage:
		message(in, said)
	case kindThoughts:
		said.Continue(conversation.Assistant).Thoughts.Add(thoughts(in))
	case kindCall:
		call(in, said, openai.Arguments(in))
	case "custom_tool_call":
		call(in, said, openai.FreeForm(openai.Or(in, "input", "")))
	case "function_call_output", "custom_tool_call_output":
		result := openai.Content(in.As("output", "content"))
		if result == nil {
			result = new("")
		}
		said.Result(openai.Or(in, "call_id", ""), *result, false)
	case "web_search_call", "tool_search_call", "mcp_list_tools": // what others did, without what came of it
	default:
		in.Fail(openai.Unsupported(in.At("type"), fmt.Sprintf("an item of type %.40s is none of a conversation", kind)))
	}
}

func message(in *openai.Object, said *conversation.Conversation) {
	role, content := openai.Or(in, "role", conversation.User), openai.Content(in)
	if content == nil {
		in.Fail(openai.Bad(in.At("content"), "%s is missing", in.At("content")))
		return
	}
	if role == conversation.Assistant {
		said.Continue(role).Text.Add(*content)
		return
	}
	said.Begin(role).Text.Add(*content)
}

func call(in *openai.Object, said *conversation.Conversation, arguments json.RawMessage) {
	c := conversation.Call{ID: openai.Or(in, "call_id", ""), Name: openai.Or(in, "name", ""), Arguments: arguments}
	if c.Name == "" {
		in.Fail(openai.Bad(in.At("name"), "%s is missing", in.At("name")))
	}
	turn := said.Continue(conversation.Assistant)
	turn.Calls = append(turn.Calls, c)
}

// thoughts are those of an item as it was told: whole, sealed, or in summary.
func thoughts(in *openai.Object) string {
	for _, of := range []func() string{
		func() string { return texts(in, "content") },
		func() string { return opened(openai.Or(in, "encrypted_content", "")) },
		func() string { return texts(in, "summary") },
	} {
		if text := of(); text != "" {
			return text
		}
	}
	return ""
}

func texts(in *openai.Object, field string) string {
	var all conversation.Text
	for _, part := range in.List(field) {
		all.Add(openai.Or(part, "text", ""))
		if err := part.Err(); err != nil {
			in.Fail(openai.ErrorOf(err, 0))
		}
	}
	return all.String()
}
