package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// doorways are routes with a body that is taken, and the fields that it may have.
var doorways = []struct {
	path, body string
	fields     []string
}{
	{"/v1/chat/completions", hi, append(sampled, "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "max_completion_tokens", "logprobs", "top_logprobs", "chat_template_kwargs", "reasoning_effort", "modalities", "stream_options", "structured_outputs")},
	{"/v1/completions", `{"model":"demo","prompt":"x"`, append(sampled, "prompt", "echo", "logprobs", "best_of", "suffix", "guided_json", "guided_regex", "guided_choice", "guided_grammar")},
	{"/v1/responses", `{"model":"demo","input":"x"`, []string{"model", "input", "instructions", "stream", "background", "store", "metadata", "temperature", "top_p", "user", "max_output_tokens", "tools", "tool_choice", "parallel_tool_calls", "text", "truncation", "previous_response_id", "brownout"}},
	{"/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]`, []string{"model", "messages", "max_tokens", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice", "thinking", "brownout"}},
	{"/v1/messages/count_tokens", `{"model":"demo","messages":[{"role":"user","content":"hi"}]`, []string{"model", "messages", "system", "tools", "tool_choice", "thinking"}},
	{"/tokenize", `{"model":"demo","prompt":"x"`, []string{"model", "prompt", "return_token_strs", "special_tokens", "add_special_tokens"}},
	{"/detokenize", `{"model":"demo","tokens":[1]`, []string{"model", "tokens"}},
}

var sampled = []string{"model", "stream", "n", "temperature", "top_p", "top_k", "min_p", "min_tokens", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "seed", "stop", "stop_token_ids", "ignore_eos", "max_tokens", "return_tokens_as_token_ids", "brownout"}

var wrongs = []string{"true", "5", "-1", "1.5", "1e400", "99999999999999999999", `"x"`, `""`, "[]", "{}", "[5]", `["x"]`, "[[]]", "[{}]", `[null]`, `{"x":5}`, `{"type":5}`, `{"type":"x"}`, `{"x":{"y":[]}}`}

// A field of a wrong type is refused by its name, and nothing is a fault of the gateway.
func TestWrongTypes(t *testing.T) {
	d := newDoor(t, &fake.Upstream{})
	for _, way := range doorways {
		for _, field := range way.fields {
			for _, wrong := range wrongs {
				body := with(t, way.body+"}", field, wrong)
				w := ask(d, "POST", way.path, body)
				var got struct {
					Error struct {
						Param         *string
						Type, Message string
					}
				}
				switch {
				case w.Code == 200:
				case w.Code == 404 && field == "model":
				case w.Code != 400:
					t.Errorf("%s %s: %d %s", way.path, body, w.Code, w.Body)
				case json.Unmarshal(w.Body.Bytes(), &got) != nil || got.Error.Message == "":
					t.Errorf("%s %s: %s", way.path, body, w.Body)
				case strings.HasPrefix(way.path, "/v1/messages"): // whose errors have no param
				case got.Error.Param == nil || !strings.HasPrefix(*got.Error.Param, field) && field != "stream" && field != "logprobs":
					t.Errorf("%s %s: %s names another field", way.path, body, w.Body)
				}
			}
		}
	}
}

// with is a body with another value of a field.
func with(t testing.TB, body, field, value string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, field)
	var out strings.Builder
	fmt.Fprintf(&out, "{%q:%s", field, value)
	for name, raw := range fields {
		fmt.Fprintf(&out, ",%q:%s", name, raw)
	}
	return out.String() + "}"
}
