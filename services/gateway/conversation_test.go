package gateway

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/anthropic"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/responses"
)

// talk is a conversation as people have it, of which each API has a form.
type talk struct {
	system string
	tools  []talkTool
	turns  []talkTurn
}

type talkTool struct {
	name        string
	description *string
	schema      string // empty: nothing is said
	strict      bool
}

// talkTurn is a user's, where ofUser has parts, else an assistant's with the results of its calls.
type talkTurn struct {
	ofUser   []string
	thoughts string
	texts    []string
	calls    []talkCall
}

type talkCall struct {
	id, name, arguments string
	result              []string
}

var (
	words       = rapid.SampledFrom([]string{"Hello.", " and", "\n", "naïve 🙂", "<b>&\"'", "</tool_call>", "<|im_end|>", "  ", "x\\y", "{\"a\":1}", "<think>"})
	phrase      = rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(words, 1, 3).Draw(t, "words"), "") })
	toolNames   = []string{"f", "get_weather", "a-b"}
	toolSchemas = rapid.SampledFrom([]string{"", "{}", `{"type":"object","properties":{"z":{"type":"string","description":"<x>"},"a":{"type":"number"}},"required":["z"]}`})
	inputs      = rapid.SampledFrom([]string{"{}", `{"z":"a","a":1.0}`, `{"b":[1,{"c":null}],"a":"<é>"}`, `{"command":"ls \"x\" & cat"}`})
)

func drawTalk(t *rapid.T) (c talk) {
	if rapid.Bool().Draw(t, "system") {
		c.system = phrase.Draw(t, "system text")
	}
	for _, name := range toolNames[:rapid.IntRange(0, len(toolNames)).Draw(t, "tools")] {
		tool := talkTool{name: name, schema: toolSchemas.Draw(t, "schema"), strict: rapid.Bool().Draw(t, "strict")}
		if rapid.Bool().Draw(t, "described") {
			tool.description = new(rapid.SampledFrom([]string{"", "Tells <things>."}).Draw(t, "description"))
		}
		c.tools = append(c.tools, tool)
	}
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		c.turns = append(c.turns, talkTurn{ofUser: rapid.SliceOfN(phrase, 1, 3).Draw(t, "user")})
		for rapid.Bool().Draw(t, "assistant") {
			turn := drawAnswer(t, len(c.turns))
			c.turns = append(c.turns, turn)
			if len(turn.calls) == 0 {
				break
			}
		}
		if last := c.turns[len(c.turns)-1]; last.ofUser != nil || len(last.calls) > 0 {
			c.turns = append(c.turns, talkTurn{texts: []string{phrase.Draw(t, "answer")}})
		}
	}
	if rapid.Bool().Draw(t, "asks") || len(c.turns[len(c.turns)-1].calls) == 0 {
		c.turns = append(c.turns, talkTurn{ofUser: []string{phrase.Draw(t, "question")}})
	}
	return c
}

func drawAnswer(t *rapid.T, at int) (turn talkTurn) {
	if rapid.Bool().Draw(t, "thinks") {
		turn.thoughts = phrase.Draw(t, "thoughts")
	}
	turn.texts = rapid.SliceOfN(phrase, 0, 2).Draw(t, "texts")
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		turn.calls = append(turn.calls, talkCall{
			id: fmt.Sprintf("call%05d", 10*at+i), name: rapid.SampledFrom(toolNames).Draw(t, "called"), arguments: inputs.Draw(t, "input"), result: rapid.SliceOfN(phrase, 0, 2).Draw(t, "result"),
		})
	}
	return turn
}

type fieldsOf = map[string]any

// parts are texts in the form that an API has them in, or one text.
func parts(t *rapid.T, kind string, texts []string) any {
	if len(texts) < 2 && rapid.Bool().Draw(t, "plain") {
		return strings.Join(texts, "")
	}
	out := []any{}
	for _, text := range texts {
		out = append(out, fieldsOf{"type": kind, "text": text})
	}
	return out
}

func (c talk) asChat(t *rapid.T) fieldsOf {
	var messages, tools []any
	add := func(m fieldsOf) { messages = append(messages, m) }
	if c.system != "" {
		add(fieldsOf{"role": "system", "content": c.system})
	}
	for _, turn := range c.turns {
		if turn.ofUser != nil {
			add(fieldsOf{"role": "user", "content": parts(t, "text", turn.ofUser)})
			continue
		}
		m := fieldsOf{"role": "assistant", "content": parts(t, "text", turn.texts)}
		if text := strings.Join(turn.texts, ""); text == "" && len(turn.calls) > 0 {
			m["content"] = rapid.SampledFrom([]any{nil, "", []any{}}).Draw(t, "no content")
		}
		if turn.thoughts != "" {
			m[rapid.SampledFrom([]string{"reasoning_content", "reasoning"}).Draw(t, "field")] = turn.thoughts
		}
		var calls []any
		for _, call := range turn.calls {
			calls = append(calls, fieldsOf{"id": call.id, "type": "function", "index": len(calls), "function": fieldsOf{"name": call.name, "arguments": call.arguments}})
		}
		if calls != nil {
			m["tool_calls"] = calls
		}
		add(m)
		for _, call := range turn.calls {
			add(fieldsOf{"role": "tool", "tool_call_id": call.id, "content": parts(t, "text", call.result)})
		}
	}
	for _, tool := range c.tools {
		f := tool.fields("parameters")
		if tool.strict {
			f["strict"] = true
		}
		tools = append(tools, fieldsOf{"type": "function", "function": f})
	}
	return fieldsOf{"model": "demo", "messages": messages, "tools": tools}
}

func (tool talkTool) fields(schema string) fieldsOf {
	f := fieldsOf{"name": tool.name}
	if tool.description != nil {
		f["description"] = *tool.description
	}
	if tool.schema != "" {
		f[schema] = json.RawMessage(tool.schema)
	}
	return f
}

func (c talk) asMessages(t *rapid.T) fieldsOf {
	var messages, tools []any
	add := func(role string, blocks ...any) {
		for len(blocks) > 1 && rapid.Bool().Draw(t, "apart") { // consecutive messages of a role are one turn
			messages = append(messages, fieldsOf{"role": role, "content": blocks[:1]})
			blocks = blocks[1:]
		}
		messages = append(messages, fieldsOf{"role": role, "content": blocks})
	}
	texts := func(all []string) (blocks []any) {
		for _, text := range all {
			blocks = append(blocks, fieldsOf{"type": "text", "text": text})
		}
		return blocks
	}
	var results []any
	for _, turn := range c.turns {
		if turn.ofUser != nil {
			add("user", append(results, texts(turn.ofUser)...)...)
			results = nil
			continue
		}
		if results != nil {
			add("user", results...)
			results = nil
		}
		var blocks []any
		if turn.thoughts != "" {
			blocks = append(blocks, fieldsOf{"type": "thinking", "thinking": turn.thoughts, "signature": ""})
		}
		blocks = append(blocks, texts(turn.texts)...)
		for _, call := range turn.calls {
			blocks = append(blocks, fieldsOf{"type": "tool_use", "id": call.id, "name": call.name, "input": json.RawMessage(call.arguments)})
			results = append(results, fieldsOf{"type": "tool_result", "tool_use_id": call.id, "content": parts(t, "text", call.result), "is_error": false})
		}
		add("assistant", blocks...)
	}
	if results != nil {
		add("user", results...)
	}
	for _, tool := range c.tools {
		f := tool.fields("input_schema")
		if tool.strict {
			f["strict"] = true
		}
		tools = append(tools, f)
	}
	out := fieldsOf{"model": "demo", "max_tokens": 9, "messages": messages, "tools": tools}
	if c.system != "" {
		out["system"] = parts(t, "text", []string{c.system})
	}
	return out
}

func (c talk) asResponses(t *rapid.T) fieldsOf {
	var items, tools []any
	out := fieldsOf{"model": "demo"}
	add := func(item fieldsOf) { items = append(items, item) }
	message := func(role, kind string, texts []string) {
		item := fieldsOf{"role": role, "content": parts(t, kind, texts)}
		if rapid.Bool().Draw(t, "typed") {
			item["type"], item["id"], item["status"] = "message", "msg_1", "completed"
		}
		add(item)
	}
	if c.system != "" && rapid.Bool().Draw(t, "instructions") {
		out["instructions"] = c.system
	} else if c.system != "" {
		message("system", "input_text", []string{c.system})
	}
	for _, turn := range c.turns {
		if turn.ofUser != nil {
			message("user", "input_text", turn.ofUser)
			continue
		}
		if turn.thoughts != "" {
			add(fieldsOf{"type": "reasoning", "id": "rs_1", "summary": []any{}, "content": []any{fieldsOf{"type": "reasoning_text", "text": turn.thoughts}}})
		}
		if len(turn.calls) == 0 || len(turn.texts) > 0 {
			message("assistant", "output_text", turn.texts)
		}
		for _, call := range turn.calls {
			add(fieldsOf{"type": "function_call", "call_id": call.id, "id": "fc_1", "name": call.name, "arguments": call.arguments, "status": "completed"})
		}
		for _, call := range turn.calls {
			add(fieldsOf{"type": "function_call_output", "call_id": call.id, "output": parts(t, "input_text", call.result)})
		}
	}
	for _, tool := range c.tools {
		f := tool.fields("parameters")
		f["type"], f["strict"] = "function", tool.strict
		tools = append(tools, f)
	}
	out["input"], out["tools"] = items, tools
	return out
}

// idReader tells ids of prompts as a model does whose template writes all that chats have.
type idReader struct {
	template *chat.Template
	text     *tokenizer.Tokenizer
}

func newIDReader(t testing.TB) *idReader {
	t.Helper()
	files := func(name string) ([]byte, bool) {
		path := "../../models/demo/" + name
		if name == "chat_template.jinja" {
			path = "../../pkg/request/chat/testdata/templates/qwen3.jinja"
		}
		data, err := os.ReadFile(path)
		return data, err == nil
	}
	template, err := chat.Open(files)
	if err != nil {
		t.Fatal(err)
	}
	text, err := tokenizer.Open(files)
	if err != nil {
		t.Fatal(err)
	}
	return &idReader{template, text}
}

func (r *idReader) ids(p *pb.Prompt) ([]uint32, error) {
	c := chat.Chat{Tools: p.Tools, Variables: p.ChatTemplateKwargs, Continue: p.ContinueFinal, Now: time.Unix(0, 0)}
	for _, m := range p.Messages {
		c.Messages = append(c.Messages, chat.Message{Role: m.Role, Content: m.Content, Name: m.Name, ToolCallID: m.ToolCallId, Reasoning: m.ReasoningContent, ToolCalls: m.ToolCalls})
	}
	text, err := r.template.Write(c)
	if err != nil {
		return nil, err
	}
	var all []tokenizer.Part
	text.Pieces(func(s string, outside bool) { all = append(all, tokenizer.Part{Text: s, Outside: outside}) })
	return r.text.EncodeParts(all, r.template.Writes)
}

// The same conversation has the same prompt, as a chat, as Messages and as Responses: 200 of them.
func TestOneMeaning(t *testing.T) {
	if err := flag.Set("rapid.checks", "200"); err != nil {
		t.Fatal(err)
	}
	reader := newIDReader(t)
	rapid.Check(t, func(t *rapid.T) {
		c := drawTalk(t)
		body := func(fields fieldsOf) []byte {
			data, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		one := body(c.asChat(t))
		asChat, err := openai.ReadChat(t.Context(), one)
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		want := conversationOf(asChat.Prompts[0])
		wantIDs, err := reader.ids(want)
		if err != nil {
			t.Fatal(err)
		}
		two, three := body(c.asMessages(t)), body(c.asResponses(t))
		asMessages, err := anthropic.Read(t.Context(), two)
		if err != nil {
			t.Fatalf("%s: %v", two, err)
		}
		asResponses, err := responses.Read(t.Context(), three)
		if err != nil {
			t.Fatalf("%s: %v", three, err)
		}
		for other, p := range map[string]*pb.Prompt{string(two): asMessages.Prompt, string(three): asResponses.Prompt} {
			got := conversationOf(p)
			ids, err := reader.ids(got)
			if err != nil || !slices.Equal(ids, wantIDs) || !proto.Equal(got, want) {
				t.Errorf("%s\nand\n%s\ngive\n%v\nand\n%v, %v", one, other, want, got, err)
			}
		}
	})
}

// conversationOf is what of a prompt its ids come of.
func conversationOf(p *pb.Prompt) *pb.Prompt {
	return &pb.Prompt{Messages: p.Messages, Tools: p.Tools, ChatTemplateKwargs: p.ChatTemplateKwargs, ContinueFinal: p.ContinueFinal}
}
