package edge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func seeds(f *testing.F) {
	temperature := 0.5
	f.Add("", []byte(`{"text": "a", "temperature": "NaN"}`), true)
	f.Add("", []byte(`{"text": "a", "deadline": "2030-01-02t03:04:09z"}`), false)
	f.Add("", []byte(`{"messages": [{"role": "user", "content": "hi"}], "deadline": "2030-01-02T03:04:09Z"}`), false)
	f.Add("", []byte(`{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {}}}]}], "tools": [{"a": [1]}], "chat_template_kwargs": {"x": null}}`), false)
	f.Add("", []byte(`{"tools": "[]", "special_tokens": true, "messages": [{"role": "tool", "content": "x", "tool_call_id": "1", "tool_calls": [}]}`), false)
	f.Add("", []byte(`{"input_ids": [1, 2], "score": "logits", "max_tokens": 0}`), false)
	f.Add("", []byte("Once upon a time"), true)
	f.Add("", []byte("\xff"), true)
	f.Add(schemas.ContentProtobuf, marshal(f, &pb.Prompt{Text: "a", Temperature: &temperature, Stop: []string{"b"}}), false)
	f.Add(schemas.ContentProtobuf, []byte("\x0a\x02a\xff"), false)
}

// Whatever comes in is a servable request or a typed error that can be told in
// every encoding.
func FuzzPrompt(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, contentType string, body []byte, text bool) {
		header := nats.Header{}
		if contentType != "" {
			header.Set(schemas.HeaderContentType, contentType)
		}
		p, encoding, err := DecodePrompt(header, body, text)
		if encoding == pb.Encoding_ENCODING_UNSPECIFIED || encoding == pb.Encoding_ENCODING_TEXT && !text {
			t.Errorf("encoding %v", encoding)
		}
		if err == nil {
			req, failed := demo().Resolve(p, now, 1)
			if err = failed; err == nil {
				checkServable(t, req.Sequence)
				if _, err := BodyHash(p); err != nil {
					t.Errorf("hashing: %v", err)
				}
				return
			}
		}
		tell(t, err)
	})
}

// shapes are prompts of so many small things.
func shapes(n int) (all []*pb.Prompt) {
	hi, text := "a", func(before, one, after string) string { return before + strings.Repeat(one+",", n) + one + after }
	chat := func() *pb.Prompt { return &pb.Prompt{Messages: []*pb.ChatMessage{{Role: "user", Content: &hi}}} }
	tools, variables, calls, grammar, choice, bias := chat(), chat(), chat(), chat(), chat(), chat()
	tools.Tools, tools.ToolChoice = text("[", `{"type":"function","function":{"name":"f"}}`, "]"), "required"
	variables.ChatTemplateKwargs = text(`{"a":[`, "{}", "]}")
	calls.Messages[0].ToolCalls = text("[", `{"function":{"name":"f"}}`, "]")
	grammar.Grammar = &pb.Grammar{JsonSchema: text(`{"enum":[`, "1", "]}")}
	choice.Grammar = &pb.Grammar{Choice: slices.Repeat([]string{"a"}, n)}
	bias.LogitBias = map[uint32]float64{}
	messages := &pb.Prompt{}
	for i := range n {
		bias.LogitBias[uint32(i)] = 1
		messages.Messages = append(messages.Messages, &pb.ChatMessage{})
	}
	return []*pb.Prompt{
		tools, variables, calls, grammar, choice, bias, messages, {Text: strings.Repeat("a", 8*n)}, {InputIds: make([]uint32, n)},
		{Text: "a", Stop: make([]string, n)}, {Text: "a", StopTokenIds: make([]uint32, n)}, {RequestId: strings.Repeat("r", n), Text: "a"},
	}
}

// No prompt takes more memory to be read and checked, or more work with it, than its bytes allow.
func FuzzWorkOfPrompts(f *testing.F) {
	for _, p := range shapes(1000) {
		body, err := jsonOut.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("", body)
		f.Add(schemas.ContentProtobuf, marshal(f, p))
	}
	m := demo()
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		const perByte, aside = 256, 64 << 10
		header := nats.Header{schemas.HeaderContentType: {contentType}}
		took := testkit.Allocated(func() {
			if p, _, err := (Limits{Tokens: m.MaxLen}).DecodePrompt(header, body, true); err == nil {
				_ = m.Check(p)
				_, _ = m.checkCalls(p)
			}
		})
		if took > perByte*int64(len(body))+aside {
			t.Errorf("%d bytes take %d of memory", len(body), took)
		}
	})
}

func tell(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Message == "" {
		t.Fatalf("%v is no typed error", err)
	}
	for _, enc := range []pb.Encoding{pb.Encoding_ENCODING_TEXT, pb.Encoding_ENCODING_JSON, pb.Encoding_ENCODING_PROTOBUF} {
		if _, failed := EncodeChunk(enc, "inbox", Refusal("r", err)); failed != nil {
			t.Errorf("telling %q: %v", e.Message, failed)
		}
	}
}

func FuzzReplay(f *testing.F) {
	f.Add("", []byte(`{"request_id": "r", "from_index": 2}`))
	f.Add(schemas.ContentProtobuf, marshal(f, &pb.Replay{RequestId: "r"}))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		r, _, err := DecodeReplay(nats.Header{schemas.HeaderContentType: {contentType}}, body)
		if err != nil {
			tell(t, err)
		} else if r == nil {
			t.Error("neither a request nor an error")
		}
	})
}
