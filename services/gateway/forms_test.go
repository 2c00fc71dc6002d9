package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// Calls of tools and thoughts are told apart from the text, whole and in events.
func TestCalls(t *testing.T) {
	says := func(p *pb.Prompt) []*pb.Chunk {
		return fake.Said(p, "stop", "<think>", "hm", "</think>", "\n\n<tool", `_call>{"name":"f","arguments":{"a":1}}</tool_call>`)
	}
	const body = hi + `,"tools":[{"type":"function","function":{"name":"f"}}]`
	w := ask(newDoor(t, &fake.Upstream{Answer: says}), "POST", "/v1/chat/completions", body+"}")
	if got := w.Body.String(); !strings.Contains(got, `"message":{"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm","tool_calls":[{"id":"call_`) ||
		!strings.Contains(got, `"type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"logprobs":null,"finish_reason":"tool_calls"`) {
		t.Errorf("%s", got)
	}
	got := ask(newDoor(t, &fake.Upstream{Answer: says}), "POST", "/v1/chat/completions", body+`,"stream":true}`).Body.String()
	for _, want := range []string{
		`"delta":{"role":"assistant","content":"","reasoning_content":"hm"}`, `"delta":{"tool_calls":[{"index":0,"id":"call_`,
		`"type":"function","function":{"name":"f","arguments":""}}]}`, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`, `"delta":{},"logprobs":null,"finish_reason":"tool_calls"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestResponses(t *testing.T) {
	u := &fake.Upstream{}
	d := newDoor(t, u)
	w := ask(d, "POST", "/v1/responses", `{"model":"demo","instructions":"Be kind.","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"x"}],"max_output_tokens":9}`)
	if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, `"status":"completed"`) || !strings.Contains(got, `"text":"Hello world"`) || !strings.Contains(got, `"input_tokens":3`) {
		t.Errorf("%d %s", w.Code, got)
	}
	prompts, _ := u.Asked()
	if p := prompts[0]; len(p.Messages) != 4 || p.Messages[0].Role != "system" || p.Messages[3].Role != "tool" || p.GetMaxTokens() != 9 {
		t.Errorf("asked %v", p)
	}
	w = ask(d, "POST", "/v1/responses", `{"model":"demo","input":"hi","background":true}`)
	var r struct{ ID, Status string }
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Status != "queued" || !strings.HasSuffix(r.ID, ".demo") {
		t.Fatalf("%s", w.Body)
	}
	if got := ask(d, "GET", "/v1/responses/"+r.ID, "").Body.String(); !strings.Contains(got, `"status":"completed"`) || !strings.Contains(got, `"id":"`+r.ID) {
		t.Errorf("%s", got)
	}
	all := ask(d, "GET", "/v1/responses/"+r.ID+"?stream=true", "").Body.String()
	rest := ask(d, "GET", "/v1/responses/"+r.ID+"?stream=true&starting_after=4", "").Body.String()
	if !strings.HasSuffix(all, rest) || strings.Count(all, "event: ") != 11 || strings.Count(rest, "event: ") != 6 || !strings.HasPrefix(all, "event: response.created\ndata: {") {
		t.Errorf("%s\nand behind 4\n%s", all, rest)
	}
	if ask(d, "POST", "/v1/responses/"+r.ID+"/cancel", ""); len(u.Cancelled()) != 1 || !strings.Contains(r.ID, strings.TrimPrefix(u.Cancelled()[0], keptID)) {
		t.Errorf("cancelled %v", u.Cancelled())
	}
	for path, status := range map[string]int{"/v1/responses/resp_x.demo": 404, "/v1/responses/x": 404, "/v1/responses/resp_x.none": 404, "/v1/responses/" + r.ID + "?stream=true&starting_after=x": 400} {
		if w := ask(d, "GET", path, ""); w.Code != status {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, body := range []string{`{"model":"demo"}`, `{"model":"demo","input":"x","previous_response_id":"y"}`, `{"model":"demo","input":[{"type":"image"}]}`, `{"model":"demo","input":"x","text":{"format":{"type":"json_schema"}}}`,
		`{"model":"demo","input":"x","include":["alien"]}`, `{"model":"demo","input":"x","include":["message.output_text.logprobs"]}`, `{"model":"demo","input":"x","reasoning":{"effort":7}}`, `{"model":"demo","input":"x","reasoning":{"alien":1}}`,
	} {
		if w := ask(d, "POST", "/v1/responses", body); w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// How much a response is to think is told to the template, as in a chat.
func TestResponseEffort(t *testing.T) {
	u := &fake.Upstream{}
	w := ask(newDoor(t, u), "POST", "/v1/responses", `{"model":"demo","input":"hi","include":["reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"}}`)
	prompts, _ := u.Asked()
	if w.Code != 200 || prompts[0].ChatTemplateKwargs != `{"reasoning_effort":"low"}` {
		t.Errorf("%d %s, asked %v", w.Code, w.Body, prompts)
	}
}

// A response that fails in the middle says so by an event of its own.
func TestResponseFails(t *testing.T) {
	d := newDoor(t, &fake.Upstream{Fails: &client.Error{Code: client.CodeInternal, Message: "lost"}})
	got := ask(d, "POST", "/v1/responses", `{"model":"demo","input":"hi","stream":true}`).Body.String()
	if _, last, _ := strings.Cut(got, "event: response.failed\n"); !strings.Contains(last, `"error":{"code":"server_error","message":"internal: the server has met a fault`) {
		t.Errorf("%s", got)
	}
}

// Anthropic's clients get calls and thoughts as blocks of their own.
func TestMessageBlocks(t *testing.T) {
	d := newDoor(t, &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		return fake.Said(p, "stop", "<think>hm</think>", "so", `<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>`)
	}})
	const body = `{"model":"demo","max_tokens":9,"tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"hi"}]`
	if got := ask(d, "POST", "/v1/messages", body+"}").Body.String(); !strings.Contains(got, `"content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"so"},{"type":"tool_use","id":"call_`) ||
		!strings.Contains(got, `"name":"f","input":{"a":1}}],"stop_reason":"tool_use"`) {
		t.Errorf("%s", got)
	}
	got := ask(d, "POST", "/v1/messages", body+`,"stream":true}`).Body.String()
	for _, want := range []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking"`, `"index":0,"delta":{"type":"thinking_delta","thinking":"hm"}`, `{"type":"content_block_stop","index":0}`,
		`"index":1,"delta":{"type":"text_delta","text":"so"}`, `"index":2,"content_block":{"type":"tool_use","id":"call_`, `"index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}`,
		`{"type":"content_block_stop","index":2}`, `"stop_reason":"tool_use"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestMessages(t *testing.T) {
	u := &fake.Upstream{}
	d := newDoor(t, u)
	const body = `{"model":"demo","max_tokens":100000,"system":[{"type":"text","text":"Be kind."}],"messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"},{"type":"text","text":"and?"}]}]`
	w := ask(d, "POST", "/v1/messages", body+"}")
	if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, `"content":[{"type":"text","text":"Hello world"}],"stop_reason":"end_turn"`) || !strings.Contains(got, `"output_tokens":3`) {
		t.Errorf("%d %s", w.Code, got)
	}
	prompts, _ := u.Asked()
	if p := prompts[0]; len(p.Messages) != 5 || p.Messages[3].Role != "tool" || p.Messages[4].GetContent() != "and?" || p.GetMaxTokens() != 512-5 {
		t.Errorf("asked %v", p)
	}
	got := ask(d, "POST", "/v1/messages", body+`,"stream":true}`).Body.String()
	for _, want := range []string{"event: message_start\ndata: {\"type\":\"message_start\"", "event: content_block_start\n", `"delta":{"type":"text_delta","text":"Hello"}`, `"stop_reason":"end_turn"`, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := ask(d, "POST", "/v1/messages/count_tokens", `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`).Body.String(); got != `{"input_tokens":1}` {
		t.Errorf("%s", got)
	}
	for body, want := range map[string]string{`{"model":"demo"}`: `"type":"error","error":{"type":"invalid_request_error"`, `{"model":"none","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`: `"type":"not_found_error"`,
		`{"model":"demo","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":"x"}]}]}`: "content[0].input: Input should be an object",
		`{"model":"demo","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                                          "content[0].text is missing"} {
		if got := ask(d, "POST", "/v1/messages", body).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// A call that was cut is no block of a message, whose input would be no object.
func TestMessageCutCalls(t *testing.T) {
	const body = `{"model":"demo","max_tokens":9,"tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"hi"}]}`
	for arguments, want := range map[string]string{
		`{"a":1}}</tool_call>`: `"input":{"a":1}}]`, `{"a":1`: `"content":[]`, `{"a":"x`: `"content":[]`, `{"a":[`: `"content":[]`, `{`: `"content":[]`, `{"a":"x"}`: `"input":{"a":"x"}}]`,
		`[1]}</tool_call>`: `"content":[]`, `"x"}</tool_call>`: `"content":[]`, `5}</tool_call>`: `"content":[]`, `null}</tool_call>`: `"input":{}}]`, ` {}}</tool_call>`: `"input":{}}]`, //nolint:gocritic // the space is what it is about
	} {
		d := newDoor(t, &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
			return fake.Said(p, "length", `<tool_call>{"name":"f","arguments":`+arguments)
		}})
		if got := ask(d, "POST", "/v1/messages", body).Body.String(); !strings.Contains(got, want) || !strings.Contains(got, `"stop_reason":"max_tokens"`) {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
}

// Calls of a history without arguments have empty ones, however clients write that.
func TestNoArguments(t *testing.T) {
	chat := func(function string) (path, body string) {
		return "/v1/chat/completions", `{"model":"demo","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f"` + function + `}}]},{"role":"tool","tool_call_id":"1","content":"y"}]}`
	}
	message := func(block string) (path, body string) {
		return "/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f"` + block + `}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"y"}]}]}`
	}
	response := func(item string) (path, body string) {
		return "/v1/responses", `{"model":"demo","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"1","name":"f"` + item + `},{"type":"function_call_output","call_id":"1","output":"y"}]}`
	}
	for _, tt := range []struct {
		of   func(string) (path, body string)
		with []string
	}{
		{chat, []string{``, `,"arguments":""`, `,"arguments":" "`, `,"arguments":"\n\t"`, `,"arguments":null`, `,"arguments":"null"`, `,"arguments":"{}"`, `,"arguments":{}`}},
		{message, []string{``, `,"input":null`, `,"input":{}`}},
		{response, []string{``, `,"arguments":""`, `,"arguments":" "`, `,"arguments":null`, `,"arguments":"null"`}},
	} {
		for _, with := range tt.with {
			u := &fake.Upstream{}
			path, body := tt.of(with)
			w := ask(newDoor(t, u), "POST", path, body)
			prompts, _ := u.Asked()
			if w.Code != 200 || len(prompts) != 1 || !strings.Contains(prompts[0].Messages[1].ToolCalls, `"arguments":{}`) {
				t.Errorf("%s %s: %d %s, asked %v", path, with, w.Code, w.Body, prompts)
			}
		}
	}
}
