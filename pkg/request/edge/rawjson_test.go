package edge

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// JSON for the chat template comes as a string or as what it is, and keeps its order.
func TestRawJSON(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       *pb.Prompt
	}{
		{"tools", `{"text": "a", "tools": [{"b": 1, "a": "\u00e9"}] , "max_tokens": 1}`, &pb.Prompt{Text: "a", Tools: `[{"b": 1, "a": "\u00e9"}]`, MaxTokens: proto.Int32(1)}},
		{"tools as a string", `{"tools": "[{\"b\": 1}]"}`, &pb.Prompt{Tools: `[{"b": 1}]`}},
		{"no tools", `{"tools": null, "chat_template_kwargs": {}}`, &pb.Prompt{ChatTemplateKwargs: `{}`}},
		{"calls", `{"messages": [{"role": "user", "content": "\"tool_calls\": []"}, {"role": "assistant", "content": null, "tool_calls": [ {"x": {}} ]}]}`,
			&pb.Prompt{Messages: []*pb.ChatMessage{{Role: "user", Content: proto.String(`"tool_calls": []`)}, {Role: "assistant", ToolCalls: `[ {"x": {}} ]`}}}},
		{"empty content", `{"messages": [{"role": "assistant", "content": "", "tool_call_id": "1", "name": "n", "reasoning_content": "r"}]}`,
			&pb.Prompt{Messages: []*pb.ChatMessage{{Role: "assistant", Content: proto.String(""), ToolCallId: "1", Name: "n", ReasoningContent: "r"}}}},
		{"elsewhere", `{"text": "\"tools\"", "request_id": "tools"}`, &pb.Prompt{Text: `"tools"`, RequestId: "tools"}},
	} {
		got, _, err := DecodePrompt(nats.Header{}, []byte(tc.body), false)
		if err != nil || !proto.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
	for _, body := range []string{`{"tools": [}`, `{"tools": [1`, `{"tools": 7}`, `{"messages": [{"tool_calls": {"a"}}]}`, `{"messages": [{"tool_calls": 1}]}`, `{"tools": [], "tools": []}`, `{"messages": {"tool_calls": []}}`} {
		if p, _, err := DecodePrompt(nats.Header{}, []byte(body), false); err == nil {
			t.Errorf("%s was taken as %v", body, p)
		}
	}
}
