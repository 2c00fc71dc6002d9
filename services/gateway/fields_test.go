package gateway

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// example is a field with two values, and what has to stand beside it; the field is left out
// where a value is empty.
type example struct{ beside, a, b string }

const (
	aMessage  = `"messages":[{"role":"user","content":"hi"}]`
	aTool     = `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
	anItem    = `"tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]`
	theirTool = `"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}]`
	aSchema   = `{"type":"object"}`
)

// elements are paths of fields in lists, with the list around a value.
func within(list, before string) func(string, string) example {
	return func(a, b string) example {
		wrap := func(v string) string { return fmt.Sprintf(`[{%s%s}]`, before, v) }
		return example{"", `"` + list + `":` + wrap(a), `"` + list + `":` + wrap(b)}
	}
}

var sampledExamples = map[string]example{
	"temperature": {"", "0.5", "0.6"}, "top_p": {"", "0.5", "0.6"}, "top_k": {"", "5", "6"}, "min_p": {"", "0.1", "0.2"}, "min_tokens": {"", "1", "2"},
	"repetition_penalty": {"", "1.1", "1.2"}, "presence_penalty": {"", "1", "2"}, "frequency_penalty": {"", "1", "2"}, "logit_bias": {"", `{"5":1}`, `{"5":2}`}, "seed": {"", "1", "2"},
	"stop": {"", `"a"`, `["b"]`}, "stop_token_ids": {"", "[1]", "[2]"}, "ignore_eos": {"", "false", "true"}, "brownout": {"", `"allow"`, `"never"`},
}

var commonExamples = map[string]example{
	"model": {"", `"demo"`, `"org/demo"`}, "stream": {"", "false", "true"}, "n": {"", "1", "2"}, "stream_options": {`"stream":true`, "null", `{"include_usage":true}`},
	"stream_options.include_usage":              {`"stream":true`, `"stream_options":{"include_usage":false}`, `"stream_options":{"include_usage":true}`},
	"return_tokens_as_token_ids":                {`"logprobs":%LOGPROBS`, "false", "true"},
	"response_format":                           {"", `{"type":"text"}`, `{"type":"json_object"}`},
	"structured_outputs":                        {"", "null", `{"regex":"a"}`},
	"structured_outputs.json":                   {"", `"structured_outputs":{"json":{"a":1}}`, `"structured_outputs":{"json":{"a":2}}`},
	"structured_outputs.regex":                  {"", `"structured_outputs":{"regex":"a"}`, `"structured_outputs":{"regex":"b"}`},
	"structured_outputs.choice":                 {"", `"structured_outputs":{"choice":["a"]}`, `"structured_outputs":{"choice":["b"]}`},
	"structured_outputs.grammar":                {"", `"structured_outputs":{"grammar":"a"}`, `"structured_outputs":{"grammar":"b"}`},
	"structured_outputs.json_object":            {"", `"structured_outputs":{}`, `"structured_outputs":{"json_object":true}`},
	"structured_outputs.disable_any_whitespace": {"", `"structured_outputs":{"json_object":true,"disable_any_whitespace":false}`, `"structured_outputs":{"json_object":true,"disable_any_whitespace":true}`},
	"guided_json":                               {"", `{"a":1}`, `{"a":2}`}, "guided_regex": {"", `"a"`, `"b"`}, "guided_choice": {"", `["a"]`, `["b"]`}, "guided_grammar": {"", `"a"`, `"b"`},
	"guided_json_object": {"", "null", "true"},
}

var chatExamples = map[string]example{
	"messages": {"", `[{"role":"user","content":"a"}]`, `[{"role":"user","content":"b"}]`}, "tools": {"", "[]", `[{"type":"function","function":{"name":"f"}}]`},
	"tool_choice": {aTool, `"auto"`, `"none"`}, "parallel_tool_calls": {aTool, "false", "true"}, "chat_template_kwargs": {"", `{"a":1}`, `{"a":2}`},
	"verbosity": {"", `"low"`, `"high"`}, "continue_final_message": {`"messages":[{"role":"assistant","content":"x"}]`, "false", "true"},
	"documents": {"", `[{"text":"a"}]`, `[{"text":"b"}]`}, "add_generation_prompt": {"", "true", "false"}, "reasoning_effort": {`"chat_template_kwargs":{}`, `"low"`, `"high"`},
	"reasoning": {"", `{"effort":"low"}`, `{"effort":"high"}`}, "thinking": {"", `{"type":"enabled"}`, `{"type":"disabled"}`}, "enable_thinking": {"", "true", "false"},
	"thinking.type":                {"", `"thinking":{"type":"enabled","budget_tokens":9}`, `"thinking":{"type":"disabled"}`},
	"messages[].prefix":            within("messages", `"content":"x","role":"assistant",`)(`"prefix":false`, `"prefix":true`),
	"messages[].partial":           within("messages", `"content":"x","role":"assistant",`)(`"partial":false`, `"partial":true`),
	"messages[].role":              within("messages", `"content":"x",`)(`"role":"user"`, `"role":"system"`),
	"messages[].name":              within("messages", `"content":"x","role":"user",`)(`"name":"a"`, `"name":"b"`),
	"messages[].content":           within("messages", `"role":"user",`)(`"content":"a"`, `"content":"b"`),
	"messages[].tool_calls":        within("messages", `"role":"assistant","content":"x",`)(`"tool_calls":[]`, `"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]`),
	"messages[].tool_call_id":      within("messages", `"content":"x","role":"tool",`)(`"tool_call_id":"a"`, `"tool_call_id":"b"`),
	"messages[].reasoning_content": within("messages", `"content":"x","role":"assistant",`)(`"reasoning_content":"a"`, `"reasoning_content":"b"`),
	"messages[].reasoning":         within("messages", `"content":"x","role":"assistant",`)(`"reasoning":"a"`, `"reasoning":"b"`),
}

var theirExamples = map[string]example{
	"model": {"", `"demo"`, `"none"`}, "messages": {"", `[{"role":"user","content":"a"}]`, `[{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`},
	"system": {"", `""`, `"b"`}, "tools": {"", "[]", `[{"name":"f"}]`}, "tool_choice": {theirTool, `{"type":"auto"}`, `{"type":"none"}`},
	"thinking": {"", `{"type":"adaptive"}`, `{"type":"disabled"}`}, "thinking.type": {"", `"thinking":{"type":"enabled"}`, `"thinking":{"type":"disabled"}`},
	"output_config": {"", `{"effort":"low"}`, `{"effort":"high"}`}, "output_config.effort": {"", `"output_config":{"effort":"low"}`, `"output_config":{"effort":"high"}`},
	"tools[].type":         within("tools", `"name":"f",`)(`"type":"custom"`, `"type":"bash_20250124"`),
	"tools[].name":         within("tools", `"input_schema":{},`)(`"name":"f"`, `"name":"ff"`),
	"tools[].description":  within("tools", `"name":"f",`)(`"description":"a"`, `"description":"bb"`),
	"tools[].input_schema": within("tools", `"name":"f",`)(`"input_schema":{}`, `"input_schema":{"type":"object"}`),
}

// examples are those of every field that is done, by route.
var examples = map[*fields.Route]struct {
	body, logprobs string
	of             []map[string]example
}{
	fields.Chat: {`"model":"demo",` + aMessage, "true", []map[string]example{sampledExamples, commonExamples, chatExamples, {
		"max_completion_tokens": {"", "5", "6"}, "max_tokens": {"", "5", "6"}, "logprobs": {"", "false", "true"}, "top_logprobs": {`"logprobs":true`, "0", "2"},
		"include_reasoning": {"", "true", "false"}, "return_token_ids": {"", "false", "true"},
	}}},
	fields.Completion: {`"model":"demo","prompt":"hi there"`, "1", []map[string]example{sampledExamples, commonExamples, {
		"prompt": {"", `"a"`, `"b"`}, "max_tokens": {"", "5", "6"}, "max_completion_tokens": {"", "5", "6"}, "echo": {"", "false", "true"}, "logprobs": {"", "null", "1"},
		"special_tokens": {"", "false", "true"}, "add_special_tokens": {"", "true", "false"}, "return_token_ids": {"", "false", "true"},
	}}},
	fields.Responses: {`"model":"demo","input":"hi"`, "", []map[string]example{{
		"model": {"", `"demo"`, `"org/demo"`}, "input": {"", `"a"`, `"b"`}, "instructions": {"", `"a"`, `"b"`}, "stream": {"", "false", "true"}, "background": {"", "false", "true"},
		"store": {"", "true", "false"}, "metadata": {"", `{"a":"1"}`, `{"a":"2"}`}, "temperature": {"", "0.5", "0.6"}, "top_p": {"", "0.5", "0.6"}, "user": {"", `"a"`, `"b"`},
		"max_output_tokens": {"", "5", "6"}, "tools": {"", "[]", `[{"type":"function","name":"f"}]`}, "tool_choice": {anItem, `"auto"`, `"none"`},
		"parallel_tool_calls": {anItem, "false", "true"}, "text": {"", `{"format":{"type":"text"}}`, `{"format":{"type":"json_object"}}`},
		"reasoning": {"", `{"effort":"low"}`, `{"effort":"high"}`}, "include": {"", "[]", `["reasoning.encrypted_content"]`}, "brownout": {"", `"allow"`, `"never"`},
	}}},
	fields.Messages: {`"model":"demo","max_tokens":9,` + aMessage, "", []map[string]example{theirExamples, {
		"max_tokens": {"", "5", "6"}, "stream": {"", "false", "true"}, "temperature": {"", "0.5", "0.6"}, "top_p": {"", "0.5", "0.6"}, "top_k": {"", "5", "6"},
		"stop_sequences": {"", `["a"]`, `["b"]`}, "brownout": {"", `"allow"`, `"never"`},
		"output_format":        {"", `{"type":"json_schema","schema":{"a":1}}`, `{"type":"json_schema","schema":{"a":2}}`},
		"output_config.format": {"", `"output_config":{"format":{"type":"json_schema","schema":{"a":1}}}`, `"output_config":{"format":{"type":"json_schema","schema":{"a":2}}}`},
	}}},
	fields.CountTokens: {`"model":"demo",` + aMessage, "", []map[string]example{theirExamples}},
	fields.Tokenize: {`"model":"demo"`, "", []map[string]example{chatExamples, {
		"model": {`"prompt":"x"`, `"demo"`, `"none"`}, "prompt": {"", `"a"`, `"a b"`}, "return_token_strs": {`"prompt":"x"`, "false", "true"},
		"special_tokens": {`"prompt":"x"`, "false", "true"}, "add_special_tokens": {`"prompt":"x"`, "true", "false"},
	}}},
	fields.Detokenize: {`"model":"demo","tokens":[1]`, "", []map[string]example{{"model": {"", `"demo"`, `"none"`}, "tokens": {"", "[1]", "[1,2]"}}}},
}

// Two values of each field that is done give two prompts, or two answers.
func TestDone(t *testing.T) {
	for _, r := range routes {
		of := examples[r]
		for _, f := range r.Fields {
			if f.Fate != fields.Done {
				continue
			}
			e, has := example{}, false
			for _, some := range of.of {
				if one, is := some[f.Path]; is {
					e, has = one, true
				}
			}
			if !has {
				t.Errorf("%s: %s is said to be done, and no example shows it", r.Path, f.Path)
				continue
			}
			beside := strings.ReplaceAll(e.beside, "%LOGPROBS", of.logprobs)
			a, b := told(t, r, of.body, f.Path, beside, e.a), told(t, r, of.body, f.Path, beside, e.b)
			if a == b {
				t.Errorf("%s: %s is said to be done: %s and %s are the same\n%s", r.Path, f.Path, e.a, e.b, a)
			}
		}
	}
}

var anyTime = regexp.MustCompile(`"created(_at)?":\d+`)

// told is what services are asked and what a client gets of a body with a field.
func told(t *testing.T, r *fields.Route, body, path, beside, value string) string {
	t.Helper()
	u := &fake.Upstream{Special: true, Answer: func(p *pb.Prompt) []*pb.Chunk {
		if p.Parse && p.Messages != nil {
			return fake.Said(p, "stop", "<think>", "hm", "</think>", "yes")
		}
		return fake.Words(p, "stop", "Hello", " wor", "ld")
	}}
	d, all := newDoor(t, u), "{"+body+"}"
	if beside != "" {
		for _, one := range regexp.MustCompile(`^"(\w+)":(.*)$`).FindAllStringSubmatch(beside, -1) {
			all = with(t, all, one[1], one[2])
		}
	}
	if strings.HasPrefix(value, `"`) && strings.Contains(path, "[]") || strings.Contains(path, ".") { // the whole field
		name, inner, _ := strings.Cut(value, ":")
		path, value = strings.Trim(name, `"`), inner
	}
	if value != "" {
		all = with(t, all, path, value)
	}
	if r == fields.Tokenize && !strings.Contains(all, `"prompt"`) && !strings.Contains(all, `"messages"`) {
		all = with(t, all, "messages", `[{"role":"user","content":"x"}]`)
	}
	w := ask(d, "POST", r.Path, all)
	if w.Code != 200 && !strings.Contains(value, "none") {
		t.Errorf("%s %s: %d %s", r.Path, all, w.Code, w.Body)
	}
	prompts, tos := u.Asked()
	out := anyTime.ReplaceAllString(w.Body.String(), "")
	if id := w.Header().Get("X-Request-Id"); id != "" {
		out = strings.ReplaceAll(out, id, "ID")
	}
	for _, p := range append(prompts, u.Tokenized()...) {
		p = proto.CloneOf(p)
		p.RequestId = ""
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf("\n%q", data)
	}
	return out + fmt.Sprint(len(tos))
}

// What may be left is left, and what is refused is, by its name, unless it asks for nothing.
func TestHintsAndRefusals(t *testing.T) {
	d := newDoor(t, &fake.Upstream{})
	for _, r := range routes {
		body := "{" + examples[r].body + "}"
		if r == fields.Tokenize {
			body = with(t, body, "prompt", `"x"`)
		}
		for _, f := range r.Fields {
			if f.Fate == fields.Done || strings.ContainsAny(f.Path, ".[") {
				continue
			}
			for _, value := range append([]string{`{"x":[7]}`, "null", "false", "0", "[]", "{}"}, f.Nothing...) {
				w := ask(d, "POST", r.Path, with(t, body, f.Path, value))
				if wrong := f.Fate == fields.Refused && (value == `{"x":[7]}` || slices.Contains(lookEmpty[f.Path], value)); (w.Code == 400) != wrong || wrong && !strings.Contains(w.Body.String(), f.Path) {
					t.Errorf("%s %s: %s: %d %s", r.Path, f.Path, value, w.Code, w.Body)
				}
			}
		}
	}
}

// lookEmpty are values that would have another answer, and look like none.
var lookEmpty = map[string][]string{"skip_special_tokens": {"false"}, "separate_reasoning": {"false"}, "web_search_options": {"{}"}, "prompt_logprobs": {"0"}}

// A field of no table is refused, wherever it stands.
func TestUnknownFields(t *testing.T) {
	d := newDoor(t, &fake.Upstream{})
	for _, r := range routes {
		if w := ask(d, "POST", r.Path, with(t, "{"+examples[r].body+"}", "temprature", "1")); w.Code != 400 || !strings.Contains(w.Body.String(), "temprature") {
			t.Errorf("%s: %d %s", r.Path, w.Code, w.Body)
		}
	}
	for _, body := range []string{hi + `,"stream":true,"stream_options":{"include_usages":true}}`, hi + `,"structured_outputs":{"rexeg":"a"}}`, `{"model":"demo","messages":[{"role":"user","content":"x","tool_cals":[]}]}`} {
		if w := ask(d, "POST", "/v1/chat/completions", body); w.Code != 400 || !strings.Contains(w.Body.String(), `"code":"unknown_parameter"`) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

var rewritePages = flag.Bool("rewrite", false, "write docs/operations/fields.md anew")

// The page is what the table says.
func TestFieldsPage(t *testing.T) {
	const file = "../../docs/operations/fields.md"
	want := fieldsPage()
	if *rewritePages {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/operations/fields.md is not what the table says; run go test ./services/gateway -run TestFieldsPage -rewrite (%v)", err)
	}
}
