package doors

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// counted are the tokens that an API says a prompt has.
func (d *door) counted(t testing.TB, path, body string) (n int) {
	t.Helper()
	status, answer := d.post(t, path, body)
	var of struct {
		Count, N int
		Input    int `json:"input_tokens"`
		Usage    struct {
			Input  int `json:"input_tokens"`
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &of); err != nil || status != 200 {
		t.Fatalf("%.80s: %d %s", body, status, answer)
	}
	return of.Count + of.Input + of.Usage.Input + of.Usage.Prompt
}

// A loop of tools has as many tokens in each API, and what is begun is gone on with.
func TestTurns(t *testing.T) {
	t.Parallel()
	d := openOf(t, clustertest.Demo(t), clustertest.Context(256))
	const (
		chat     = `{"model":"demo","max_tokens":1,"messages":[{"role":"user","content":"Two."},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"a"},{"role":"tool","tool_call_id":"2","content":"b"}]}`
		items    = `{"model":"demo","max_output_tokens":1,"input":[{"role":"user","content":"Two."},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"a"},{"type":"function_call_output","call_id":"2","output":"b"}]}`
		messages = `{"model":"demo","max_tokens":1,"messages":[{"role":"user","content":"Two."},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"b"}]}]}`
	)
	want := d.counted(t, "/v1/chat/completions", chat)
	for path, body := range map[string]string{"/v1/responses": items, "/v1/messages": messages} {
		if got := d.counted(t, path, body); got != want {
			t.Errorf("%s: %d tokens, a chat has %d", path, got, want)
		}
	}
	const begun = `"messages":[{"role":"user","content":"Tell a story."},{"role":"assistant","content":"Once upon a time, there was"}]`
	_, whole := d.post(t, "/v1/messages", `{"model":"demo","max_tokens":12,"temperature":0,`+begun+"}")
	_, same := d.post(t, "/v1/chat/completions", `{"model":"demo","max_tokens":12,"temperature":0,"continue_final_message":true,"add_generation_prompt":false,`+begun+"}")
	var m struct{ Content []struct{ Text string } }
	var c answer
	if json.Unmarshal([]byte(whole), &m) != nil || json.Unmarshal([]byte(same), &c) != nil || len(m.Content) != 1 || len(c.Choices) != 1 || m.Content[0].Text != c.Choices[0].Message.Content || !strings.HasPrefix(m.Content[0].Text, " a little") {
		t.Errorf("%s and %s", whole, same)
	}
}

// Counts are of what is sent, even where no context holds it, and have the hints that a prompt has.
func TestCountsOfLongChats(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, words := range []int{10, context, 20 * context, 2000 * context} {
		text := strings.Repeat("word ", words)
		n := d.counted(t, "/v1/messages/count_tokens", fmt.Sprintf(`{"model":"demo","thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"a"}]},{"role":"user","content":%q}]}`, text))
		if n < words {
			t.Errorf("%d words are counted as %d tokens", words, n)
		}
		status, body := d.post(t, "/v1/messages", fmt.Sprintf(`{"model":"demo","max_tokens":100,"messages":[{"role":"user","content":%q}]}`, text))
		if long := n > context; long != (status == 400 || status == 413) || long && !strings.Contains(body, "context") {
			t.Errorf("%d words: %d %s", words, status, body)
		}
	}
}
