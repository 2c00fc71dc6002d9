package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/services/gateway/conversation"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

// turns takes the conversation. Consecutive messages of one role are one turn, as this API says.
func turns(o *openai.Object) *conversation.Conversation {
	said := &conversation.Conversation{}
	if system := openai.Content(o.As("system", "content")); system != nil && *system != "" {
		said.Begin(conversation.System).Text.Add(*system)
	}
	all := o.List("messages")
	if len(all) == 0 {
		o.Fail(openai.Bad("messages", "messages: at least one message is required"))
	}
	for i := 0; i < len(all); {
		role := roleOf(all[i])
		r := reader{said: said, turn: conversation.Turn{Role: role}}
		for ; i < len(all) && (r.read == 0 || roleOf(all[i]) == role); i++ {
			r.message(all[i])
			all[i].Raw("role")
			o.EndOf(all[i])
		}
		r.end()
	}
	return said
}

func roleOf(in *openai.Object) string {
	var role string
	_ = json.Unmarshal(in.Peek("role"), &role) // what is no string is no role
	if role != conversation.User && role != conversation.Assistant && role != conversation.System {
		in.Fail(openai.Bad(in.At("role"), "%s must be user or assistant", in.At("role")))
	}
	return role
}

// reader reads the messages of one turn. Results of tools are turns of their own before it.
type reader struct {
	said *conversation.Conversation
	read int // messages
	turn conversation.Turn
	some bool // the turn has something, even if that is an empty text
	told int  // results
}

func (r *reader) message(in *openai.Object) {
	r.read++
	raw := in.Raw("content")
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		r.turn.Text.Add(text)
		r.some = true
		return
	}
	in.Put("content", raw)
	for _, block := range in.List("content") {
		r.block(block)
		if err := block.Err(); err != nil {
			in.Fail(openai.ErrorOf(err, 0))
		}
	}
}

func (r *reader) block(block *openai.Object) {
	switch kind := openai.Or(block, "type", ""); kind {
	case "text":
		r.turn.Text.Add(openai.TextOf(block))
		r.some = true
	case "thinking":
		r.turn.Thoughts.Add(openai.Or(block, "thinking", ""))
	case "redacted_thinking", "fallback": // nothing that can be read
	case "tool_use":
		r.turn.Calls = append(r.turn.Calls, callOf(block))
	case "tool_result":
		r.result(block)
	case "document", "search_result":
		r.turn.Text.Add(document(block, kind))
		r.some = true
	default:
		block.Fail(openai.Unsupported(block.At("type"), fmt.Sprintf("a block of type %.40s is no text", kind)))
	}
}

func callOf(block *openai.Object) conversation.Call {
	input := block.Raw("input")
	if len(input) > 0 && input[0] != '{' {
		block.Fail(openai.Bad(block.At("input"), "%s: Input should be an object", block.At("input")))
	}
	return conversation.Call{ID: openai.Or(block, "id", ""), Name: openai.Or(block, "name", ""), Arguments: conversation.Arguments(string(input))}
}

// result takes what a tool has told.
func (r *reader) result(block *openai.Object) {
	text, all := "", conversation.Text{}
	raw := block.Raw("content")
	if raw != nil && json.Unmarshal(raw, &text) != nil {
		block.Put("content", raw)
		for _, part := range block.List("content") {
			all.Add(resultPart(part))
			if err := part.Err(); err != nil {
				block.Fail(openai.ErrorOf(err, 0))
			}
		}
	}
	all.Add(text)
	r.said.Result(openai.Or(block, "tool_use_id", ""), all.String(), openai.Or(block, "is_error", false))
	r.told++
}

func resultPart(part *openai.Object) string {
	switch kind := openai.Or(part, "type", ""); kind {
	case "text":
		return openai.TextOf(part)
	case "tool_reference": // a tool that was found: all are in the prompt
		return openai.Or(part, "tool_name", "")
	case "document", "search_result":
		return document(part, kind)
	default:
		part.Fail(openai.Unsupported(part.At("type"), fmt.Sprintf("a block of type %.40s is no text", kind)))
		return ""
	}
}

// document is what a block has that was found or attached, as far as it is text.
func document(block *openai.Object, kind string) string {
	var lines []string
	for _, name := range []string{"title", "context"} {
		if text := openai.Or(block, name, ""); text != "" {
			lines = append(lines, text)
		}
	}
	if kind == "search_result" {
		if from := openai.Or(block, "source", ""); from != "" {
			lines = append(lines, from)
		}
		if text := openai.Content(block); text != nil {
			lines = append(lines, *text)
		}
		return strings.Join(lines, "\n")
	}
	source := block.Inner("source")
	if source == nil {
		block.Fail(openai.Bad(block.At("source"), "%s: Field required", block.At("source")))
		return ""
	}
	switch of := openai.Or(source, "type", ""); of {
	case "text":
		lines = append(lines, openai.Or(source, "data", ""))
	case "content":
		if text := openai.Content(source); text != nil {
			lines = append(lines, *text)
		}
	default:
		block.Fail(openai.Unsupported(block.At("source"), fmt.Sprintf("a document of type %.40s is no text", of)))
	}
	if err := source.Err(); err != nil {
		block.Fail(openai.ErrorOf(err, 0))
	}
	return strings.Join(lines, "\n")
}

// end adds the turn, unless results were all there was.
func (r *reader) end() {
	if r.turn.Role == conversation.System { // which may have begun above all messages
		r.said.Continue(conversation.System).Text.Add(r.turn.Text.String())
		return
	}
	if r.some || r.turn.Thoughts.String() != "" || len(r.turn.Calls) > 0 || r.told == 0 {
		*r.said.Begin(r.turn.Role) = r.turn
	}
}
