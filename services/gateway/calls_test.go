package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

const (
	toolsChat      = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}]`
	toolsResponses = `"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true},{"type":"function","name":"g"}]`
	toolsMessages  = `"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g"}]`
)

// What clients of each API ask of calls goes to the services in one form.
func TestToolChoice(t *testing.T) {
	const named = `{"type":"function","function":{"name":"g"}}`
	bodies := map[string]string{"/v1/chat/completions": hi, "/v1/responses": `{"model":"demo","input":"hi"`, "/v1/messages": `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`}
	for _, tt := range []struct {
		path, fields string
		choice       string
		tools        int
		single       bool
	}{
		{"/v1/chat/completions", toolsChat, "", 2, false},
		{"/v1/chat/completions", toolsChat + `,"tool_choice":"none"`, "", 0, false},
		{"/v1/chat/completions", toolsChat + `,"tool_choice":"required","parallel_tool_calls":false`, "required", 2, true},
		{"/v1/chat/completions", toolsChat + `,"tool_choice":{"type":"function","function":{"name":"g"}}`, named, 2, false},
		{"/v1/chat/completions", toolsChat + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`, "", 1, false},
		{"/v1/chat/completions", toolsChat + `,"tool_choice":"required","response_format":{"type":"json_object"}`, "required", 2, false},
		{"/v1/responses", toolsResponses + `,"tool_choice":"required"`, "required", 2, false},
		{"/v1/responses", toolsResponses + `,"tool_choice":{"type":"function","name":"g"},"parallel_tool_calls":false`, named, 2, true},
		{"/v1/responses", toolsResponses + `,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}`, "required", 2, false},
		{"/v1/messages", toolsMessages + `,"tool_choice":{"type":"any"}`, "required", 2, false},
		{"/v1/messages", toolsMessages + `,"tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true}`, named, 2, true},
		{"/v1/messages", toolsMessages + `,"tool_choice":{"type":"none"}`, "", 0, false},
	} {
		u := &fake.Upstream{}
		w := ask(newDoor(t, u), "POST", tt.path, bodies[tt.path]+","+tt.fields+"}")
		prompts, _ := u.Asked()
		if w.Code != 200 || len(prompts) != 1 {
			t.Errorf("%s %s: %d %s", tt.path, tt.fields, w.Code, w.Body)
			continue
		}
		p := prompts[0]
		var tools []json.RawMessage
		if p.Tools != "" {
			if err := json.Unmarshal([]byte(p.Tools), &tools); err != nil {
				t.Fatal(err)
			}
		}
		if p.ToolChoice != tt.choice || len(tools) != tt.tools || (p.ParallelToolCalls != nil && !*p.ParallelToolCalls) != tt.single || !p.Parse || p.Grammar != nil {
			t.Errorf("%s %s: asked %v", tt.path, tt.fields, p)
		}
	}
}

func TestToolChoiceRefused(t *testing.T) {
	for fields, want := range map[string]string{
		`"tool_choice":"required"`:                                               `"param":"tool_choice"`,
		`"tool_choice":"any",` + toolsChat:                                       `"param":"tool_choice"`,
		`"tool_choice":5,` + toolsChat:                                           `"param":"tool_choice"`,
		`"tool_choice":{"type":"function"},` + toolsChat:                         `"param":"tool_choice.name"`,
		`"tool_choice":{"type":"function","function":{"name":"h"}},` + toolsChat: `which is none of tools`,
		`"tool_choice":{"type":"custom"},` + toolsChat:                           `"param":"tool_choice"`,
		`"tools":{}`:                                  `"param":"tools"`,
		`"tools":[5]`:                                 `"param":"tools[0]"`,
		`"tools":[{"type":"web"}]`:                    `"param":"tools[0].type"`,
		`"tools":[{"type":"function"}]`:               `"param":"tools[0].function"`,
		`"tools":[{"type":"function","function":{}}]`: `"param":"tools[0].function.name"`,
		`"tools":[{"type":"function","function":{"name":"f","parameters":5}}]`: `"param":"tools[0].function.parameters"`,
		`"parallel_tool_calls":1`: `"param":"parallel_tool_calls"`,
	} {
		if w := ask(newDoor(t, &fake.Upstream{}), "POST", "/v1/chat/completions", hi+","+fields+"}"); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", fields, w.Code, w.Body, want)
		}
	}
}

// Responses have an item for what is thought, said and called, each with its events.
func TestResponseItems(t *testing.T) {
	u := &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		return fake.Said(p, "stop", "<think>hm</think>", "So", `<tool_call>{"name":"f","arguments":{"a"`, `:1}}</tool_call>`, `<tool_call>{"name":"g"}</tool_call>`)
	}}
	const body = `{"model":"demo","input":"hi",` + toolsResponses
	got := ask(newDoor(t, u), "POST", "/v1/responses", body+"}").Body.String()
	for _, want := range []string{
		`{"type":"reasoning","id":"rs_`, `"content":[{"type":"reasoning_text","text":"hm"}]`, `"content":[{"type":"output_text","text":"So","annotations":[],"logprobs":[]}]`,
		`"name":"f","arguments":"{\"a\":1}"}`, `"name":"g","arguments":"{}"}`, `"status":"completed"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	var kinds []string
	for _, line := range strings.Split(ask(newDoor(t, u), "POST", "/v1/responses", body+`,"stream":true}`).Body.String(), "\n") {
		if kind, is := strings.CutPrefix(line, "event: response."); is {
			kinds = append(kinds, kind)
		}
	}
	const want = "created in_progress output_item.added reasoning_text.delta reasoning_text.done output_item.done" +
		" output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done" +
		" output_item.added function_call_arguments.delta function_call_arguments.delta function_call_arguments.done output_item.done" +
		" output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed"
	if strings.Join(kinds, " ") != want {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(kinds, " "), want)
	}
}

// Several calls are told in pieces, with an index each.
func TestCallPieces(t *testing.T) {
	u := &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		return fake.Said(p, "stop", `<tool_call>{"name":"f","arguments":{"a"`, `:1}}</tool_call>`, `<tool_call>{"name":"g"}</tool_call>`)
	}}
	got := ask(newDoor(t, u), "POST", "/v1/chat/completions", hi+`,"stream":true,`+toolsChat+"}").Body.String()
	at := 0
	for _, want := range []string{
		`"role":"assistant"`, `"tool_calls":[{"index":0,"id":"call_`, `{"index":0,"function":{"arguments":"{\"a\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
		`"tool_calls":[{"index":1,"id":"call_`, `{"index":1,"function":{"arguments":"{}"}}`, `"finish_reason":"tool_calls"`,
	} {
		n := strings.Index(got[at:], want)
		if n < 0 {
			t.Fatalf("no %s behind byte %d of\n%s", want, at, got)
		}
		at += n
	}
}
