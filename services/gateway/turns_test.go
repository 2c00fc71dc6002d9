package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// asked is the prompt of a body, which is answered.
func asked(t *testing.T, path, body string) *pb.Prompt {
	t.Helper()
	u := &fake.Upstream{}
	w := ask(newDoor(t, u), "POST", path, body)
	prompts, _ := u.Asked()
	if w.Code != 200 || len(prompts) != 1 {
		t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	return prompts[0]
}

// turnsOf are a prompt's messages in short: role, (thoughts), text, calls and the id of the call that is answered.
func turnsOf(p *pb.Prompt) string {
	var out []string
	for _, m := range p.Messages {
		one := m.Role + " "
		if m.ReasoningContent != "" {
			one += "(" + m.ReasoningContent + ")"
		}
		one += m.GetContent()
		var calls []struct {
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		if m.ToolCalls != "" {
			if err := json.Unmarshal([]byte(m.ToolCalls), &calls); err != nil {
				return err.Error()
			}
		}
		for _, c := range calls {
			one += " " + c.Function.Name + string(c.Function.Arguments)
		}
		if m.ToolCallId != "" {
			one += " of " + m.ToolCallId
		}
		out = append(out, one)
	}
	return strings.Join(out, " | ")
}

// Consecutive messages of one role are one turn of Messages; results of tools stand before it.
func TestMessageTurns(t *testing.T) {
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1}},{"type":"tool_use","id":"2","name":"g","input":{}}]}`
	for messages, want := range map[string]string{
		`{"role":"user","content":"a"},{"role":"user","content":"b"}`:                                                                                           "user ab",
		`{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"user","content":"d"}`: "user ab | assistant c | user d",
		`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}`:                     "user a | assistant bc | user d",
		`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"}]},` + call +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"y"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`: `user a | assistant (hm) f{"a":1} g{} | tool x of 1 | tool y of 2 | user bc`,
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"1"}]}`:                                                                 "tool  of 1 | user a",
		`{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"system","content":"t"},{"role":"user","content":"b"}`:                                     "user a | system st | user b",
		`{"role":"system","content":"s"},{"role":"user","content":"a"}`:                                                                                                   "system s | user a",
		`{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}},{"type":"text","text":"a"}]}`:            "user T\nDa",
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"tool_reference","tool_name":"f"},{"type":"text","text":"!"}]}]}`:           "tool f! of 1",
		`{"role":"user","content":[{"type":"search_result","source":"S","title":"T","content":[{"type":"text","text":"a"}]}]}`:                                            "user T\nS\na",
		`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}`: "user a | assistant b | user c",
	} {
		if got := turnsOf(asked(t, "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[`+messages+`]}`)); got != want {
			t.Errorf("%s\ngives %q,\nwant  %q", messages, got, want)
		}
	}
	if got := turnsOf(asked(t, "/v1/messages", `{"model":"demo","max_tokens":9,"system":"s","messages":[{"role":"system","content":"t"},{"role":"user","content":"a"}]}`)); got != "system st | user a" {
		t.Errorf("%q", got)
	}
}

// An answer goes on with what an assistant has begun.
func TestPrefill(t *testing.T) {
	const begun = `{"role":"user","content":"a"},`
	for messages, want := range map[string]bool{
		begun + `{"role":"assistant","content":"{"}`:                                                                  true,
		begun + `{"role":"assistant","content":[{"type":"text","text":"b"}]}`:                                         true,
		begun + `{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}`:                               true,
		begun + `{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"b"}]}`:      true,
		begun + `{"role":"assistant","content":""}`:                                                                   false,
		begun + `{"role":"assistant","content":" \n"}`:                                                                false,
		begun + `{"role":"assistant","content":"b"},{"role":"user","content":"c"}`:                                    false,
		begun + `{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}`:                                 false,
		begun + `{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"tool_use","id":"1","name":"f"}]}`: false,
	} {
		p := asked(t, "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[`+messages+`]}`)
		if p.ContinueFinal != want {
			t.Errorf("%s: %v", messages, p)
		}
		u := &fake.Upstream{}
		ask(newDoor(t, u), "POST", "/v1/messages/count_tokens", `{"model":"demo","messages":[`+messages+`]}`)
		if counted := u.Tokenized(); len(counted) != 1 || counted[0].ContinueFinal != want {
			t.Errorf("%s is counted as %v", messages, counted)
		}
	}
	const chat = `{"model":"demo","continue_final_message":true,"add_generation_prompt":false,"messages":[{"role":"user","content":"a"}`
	if p := asked(t, "/v1/chat/completions", chat+`,{"role":"assistant","content":"b"}]}`); !p.ContinueFinal {
		t.Errorf("%v", p)
	}
	for _, field := range []string{"prefix", "partial"} {
		const messages = `{"model":"demo","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","`
		if p := asked(t, "/v1/chat/completions", messages+field+`":true}]}`); !p.ContinueFinal {
			t.Errorf("%s: %v", field, p)
		}
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", messages+field+`":true},{"role":"user","content":"c"}]}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"messages[1].`+field) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	for _, more := range []string{"]}", `,{"role":"assistant","content":""}]}`, `,{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]}`} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", chat+more); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"continue_final_message"`) {
			t.Errorf("%s: %d %s", more, w.Code, w.Body)
		}
	}
}

// That a tool failed is in what the model reads.
func TestFailedResults(t *testing.T) {
	for block, want := range map[string]string{
		`"content":"x","is_error":true`:                          "Error: x",
		`"content":[{"type":"text","text":"x"}],"is_error":true`: "Error: x",
		`"is_error":true`:                                        "Error: ",
		`"content":"x","is_error":false`:                         "x",
		`"content":"x","is_error":null`:                          "x",
		`"content":"Error: x","is_error":true`:                   "Error: Error: x",
	} {
		p := asked(t, "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",`+block+`}]}]}`)
		if got := p.Messages[0].GetContent(); got != want {
			t.Errorf("%s: %q, want %q", block, got, want)
		}
	}
	if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":"yes"}]}]}`); w.Code != 400 || !strings.Contains(w.Body.String(), "is_error") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Tools that nobody here can run are left out. That one of them be called is refused.
func TestLeftOutTools(t *testing.T) {
	const chat, items, messages = `{"model":"demo","messages":[{"role":"user","content":"hi"}]`, `{"model":"demo","input":"hi"`, `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct{ path, body, choice string }{
		{"/v1/chat/completions", chat + `,"tools":[{"type":"custom","custom":{"name":"c"}},{"type":"web_search_preview"},{"type":"function","function":{"name":"f"}}]`, `{"type":"function","function":{"name":"c"}}`},
		{"/v1/responses", items + `,"tools":[{"type":"web_search","external_web_access":false},{"type":"namespace","name":"n","tools":[{"type":"function","name":"g"}]},{"type":"custom","name":"apply_patch"},{"type":"mcp","server_label":"x"},{"type":"local_shell"},{"type":"tool_search"},{"type":"function","name":"f"}]`, `{"type":"function","name":"apply_patch"}`},
		{"/v1/messages", messages + `,"mcp_servers":[{"type":"url","url":"x","name":"y"}],"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5},{"type":"bash_20250124","name":"bash"},{"type":"mcp_toolset","mcp_server_name":"y"},{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"},{"type":"code_execution_20250825","name":"code_execution"},{"type":"custom","name":"f"}]`, `{"type":"tool","name":"bash"}`},
	} {
		if p := asked(t, tt.path, tt.body+"}"); p.Tools != `[{"type":"function","function":{"name":"f"}}]` {
			t.Errorf("%s: asked with %s", tt.path, p.Tools)
		}
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", tt.path, tt.body+`,"tool_choice":`+tt.choice+"}"); w.Code != 400 || !strings.Contains(w.Body.String(), "none of tools") {
			t.Errorf("%s: %d %s", tt.path, w.Code, w.Body)
		}
	}
	for body, tools := range map[string]string{
		items + `,"tools":[{"type":"web_search"}]}`: "",
		items + `,"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}}`:                                "",
		items + `,"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"},{"type":"function","name":"f"}]}}`: `[{"type":"function","function":{"name":"f"}}]`,
	} {
		if p := asked(t, "/v1/responses", body); p.Tools != tools {
			t.Errorf("%s: asked with %s", body, p.Tools)
		}
	}
	for _, body := range []string{
		items + `,"tools":[{"type":"web_search"}],"tool_choice":"required"}`, items + `,"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}`, items + `,"tools":[{}]}`,
		items + `,"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"}]}}`,
	} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/responses", body); w.Code != 400 || !strings.Contains(w.Body.String(), "tool") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// Hints about thoughts go to templates that know them; what is no hint is refused.
func TestThinking(t *testing.T) {
	const messages = `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	for fields, want := range map[string]string{
		`"thinking":{"type":"adaptive","display":"omitted"}`:                   "",
		`"thinking":{"type":"enabled","budget_tokens":1024}`:                   `{"enable_thinking":true,"thinking":true}`,
		`"thinking":{"type":"disabled"}`:                                       `{"enable_thinking":false,"thinking":false}`,
		`"output_config":{"effort":"low","task_budget":{"type":"tokens"}}`:     `{"reasoning_effort":"low"}`,
		`"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`:     `{"enable_thinking":false,"thinking":false,"reasoning_effort":"high"}`,
		`"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`: "",
		`"container":"c","speed":"fast","metadata":{},"diagnostics":{"x":1}`:   "",
	} {
		if p := asked(t, "/v1/messages", messages+","+fields+"}"); p.ChatTemplateKwargs != want {
			t.Errorf("%s: %s, want %s", fields, p.ChatTemplateKwargs, want)
		}
	}
	for fields, want := range map[string]string{`"thinking":{"type":"on"}`: "thinking.type", `"thinking":{"budget":1}`: "thinking.budget", `"output_config":{"efort":1}`: "output_config.efort", `"output_config":{"format":{"type":"xml"}}`: "format"} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/messages", messages+","+fields+"}"); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", fields, w.Code, w.Body)
		}
	}
	p := asked(t, "/v1/messages", messages+`,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`)
	if p.GetGrammar().GetJsonSchema() != `{"type":"object"}` {
		t.Errorf("%v", p)
	}
	p = asked(t, "/v1/responses", `{"model":"demo","input":"hi","text":{"verbosity":"low"},"truncation":"auto","max_tool_calls":3,"client_metadata":{"a":"b"},"reasoning":{"effort":"low","summary":"auto","context":"all"}}`)
	if p.ChatTemplateKwargs != `{"verbosity":"low","reasoning_effort":"low"}` {
		t.Errorf("%v", p)
	}
}

// What an assistant thinks, says and calls in items of their own is one turn of Responses.
func TestResponseTurns(t *testing.T) {
	const user, out = `{"role":"user","content":"a"}`, `{"type":"function_call_output","call_id":"1","output":"x"}`
	call := func(id, name string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"` + name + `","arguments":"{}"}`
	}
	for items, want := range map[string]string{
		user + "," + call("1", "f") + "," + call("2", "g") + "," + out + `,{"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"y"}]}`:                                                                                     "user a | assistant  f{} g{} | tool x of 1 | tool y of 2",
		user + `,{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}],"summary":[{"type":"summary_text","text":"h"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},` + call("1", "f") + "," + out: "user a | assistant (hm)b f{} | tool x of 1",
		user + `,{"type":"reasoning","summary":[{"type":"summary_text","text":"h"}]},` + call("1", "f"):                                                                                                                                                   "user a | assistant (h) f{}",
		user + `,{"type":"reasoning","summary":[],"encrypted_content":"gAAAA"},` + call("1", "f"):                                                                                                                                                         "user a | assistant  f{}",
		user + "," + call("1", "f") + "," + out + "," + call("2", "f") + `,{"type":"function_call_output","call_id":"2","output":""}`:                                                                                                                     "user a | assistant  f{} | tool x of 1 | assistant  f{} | tool  of 2",
		user + `,{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}`:                                                                                                                                     "user a | assistant bc | user d",
		user + `,{"type":"custom_tool_call","call_id":"1","name":"p","input":"*** x"},{"type":"custom_tool_call_output","call_id":"1","output":"ok"}`:                                                                                                     `user a | assistant  p{"input":"*** x"} | tool ok of 1`,
		user + `,{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},{"role":"assistant","content":"b"}`:                                                                                                   "user a | assistant b",
		`{"type":"function_call","call_id":"1","name":"f","arguments":""},{"type":"function_call","call_id":"2","name":"f"}`:                                                                                                                              "assistant  f{} f{}",
	} {
		if got := turnsOf(asked(t, "/v1/responses", `{"model":"demo","input":[`+items+`]}`)); got != want {
			t.Errorf("%s\ngives %q,\nwant  %q", items, got, want)
		}
	}
	for arguments, want := range map[string]string{`{"b":1}`: `{"b":1}`, "null": "{}", `" "`: "{}"} { // also as the values that they are
		if got := turnsOf(asked(t, "/v1/responses", `{"model":"demo","input":[`+strings.Replace(call("1", "f"), `"{}"`, arguments, 1)+`]}`)); got != "assistant  f"+want {
			t.Errorf("arguments %s: %q", arguments, got)
		}
	}
	for items, want := range map[string]string{
		`{"type":"item_reference","id":"x"}`: "item_reference", `{"type":"compaction","encrypted_content":"x"}`: "compaction", `{"type":"function_call","call_id":"1"}`: "input[0].name",
		`{"role":"user"}`: "input[0].content", `{"role":"user","content":[{"type":"input_image"}]}`: "input_image", `{"type":"reasoning","content":7}`: "input[0].content",
	} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/responses", `{"model":"demo","input":[`+items+`]}`); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", items, w.Code, w.Body)
		}
	}
}

// A client that keeps of thoughts what is sealed alone sends them back with it.
func TestSealedThoughts(t *testing.T) {
	u := &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk { return fake.Said(p, "stop", "<think>hm 🙂</think>", "So") }}
	d := newDoor(t, u)
	w := ask(d, "POST", "/v1/responses", `{"model":"demo","input":"hi","include":["reasoning.encrypted_content"]}`)
	var r struct {
		Output []struct {
			Type      string
			Encrypted string `json:"encrypted_content"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || len(r.Output) != 2 || r.Output[0].Encrypted == "" {
		t.Fatalf("%s", w.Body)
	}
	if stream := ask(d, "POST", "/v1/responses", `{"model":"demo","input":"hi","stream":true,"include":["reasoning.encrypted_content"]}`).Body.String(); strings.Count(stream, r.Output[0].Encrypted) != 2 {
		t.Errorf("%s", stream)
	}
	back := asked(t, "/v1/responses", `{"model":"demo","input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[],"encrypted_content":"`+r.Output[0].Encrypted+`"},{"role":"assistant","content":"So"},{"role":"user","content":"?"}]}`)
	if got := turnsOf(back); got != "user hi | assistant (hm 🙂)So | user ?" {
		t.Errorf("%q", got)
	}
	if plain := ask(d, "POST", "/v1/responses", `{"model":"demo","input":"hi"}`).Body.String(); strings.Contains(plain, "encrypted_content") {
		t.Errorf("%s", plain)
	}
}

// A chat's calls of other kinds and forms are the calls that they are.
func TestChatCalls(t *testing.T) {
	for calls, want := range map[string]string{
		`{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`: `assistant  f{"a":1}`,
		`{"id":"1","function":{"name":"f","arguments":{"a":1}}}`:                       `assistant  f{"a":1}`,
		`{"id":"1","function":{"name":"f","arguments":""}}`:                            "assistant  f{}",
		`{"id":"1","function":{"name":"f","arguments":null}}`:                          "assistant  f{}",
		`{"id":"1","function":{"name":"f"}}`:                                           "assistant  f{}",
		`{"id":"1","type":"custom","custom":{"name":"p","input":"x"}}`:                 `assistant  p{"input":"x"}`,
	} {
		if got := turnsOf(asked(t, "/v1/chat/completions", `{"model":"demo","messages":[{"role":"assistant","content":null,"tool_calls":[`+calls+`]}]}`)); got != want {
			t.Errorf("%s gives %q, want %q", calls, got, want)
		}
	}
	for _, calls := range []string{`{"id":"1"}`, `{"id":"1","function":{}}`, `5`} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", `{"model":"demo","messages":[{"role":"assistant","tool_calls":[`+calls+`]}]}`); w.Code != 400 {
			t.Errorf("%s: %d %s", calls, w.Code, w.Body)
		}
	}
}
