package chat

import (
	"strings"
	"testing"
)

func says(role, content string) Message { return Message{Role: role, Content: &content} }

// What a template can write it writes as it is, and what it refuses for its order in the order that it has.
func TestWrite(t *testing.T) {
	g := readGolden(t)
	const call = `[{"id":"abcdef123","type":"function","function":{"name":"f","arguments":{}}}]`
	tests := []struct {
		template string
		messages []Message
		like     []Message // which Render writes the same; nil: it is refused
	}{
		{"mixtral", []Message{says("user", "a"), says("user", "b")}, []Message{says("user", "a\n\nb")}},
		{"mixtral", []Message{says("user", "a"), says("system", "s")}, []Message{says("user", "a\n\ns")}},
		{"mixtral", []Message{says("developer", "d"), says("developer", "e"), says("user", "a"), says("user", "b")}, []Message{says("system", "d\n\ne"), says("user", "a\n\nb")}},
		{"mixtral", []Message{says("system", "s"), says("system", "t"), says("user", "a")}, []Message{says("system", "s\n\nt"), says("user", "a")}},
		{"mixtral", []Message{says("user", "a"), says("assistant", "b"), says("assistant", "c"), says("user", "d")}, []Message{says("user", "a"), says("assistant", "b\n\nc"), says("user", "d")}},
		{"mixtral", []Message{says("user", "a"), says("assistant", "b"), says("system", "s"), says("user", "c")}, []Message{says("user", "a"), says("assistant", "b"), says("user", "s\n\nc")}},
		{"mixtral", []Message{says("user", "a"), says("assistant", ""), says("assistant", "c"), says("user", "")}, []Message{says("user", "a"), says("assistant", "c"), says("user", "")}},
		{
			"mixtral", []Message{says("user", "a"), {Role: "assistant", ToolCalls: call}, says("tool", "x"), {Role: "tool", Content: new("y"), Name: "f", ToolCallID: "1"}, says("user", "b")},
			[]Message{says("user", "a"), says("assistant", ""), says("user", "x\n\ny\n\nb")},
		},
		{"mistral-tools", []Message{says("user", "a"), {Role: "assistant", ToolCalls: call}, {Role: "tool", Content: new("x"), ToolCallID: "abc"}}, nil},
		{"mixtral", []Message{says("assistant", "a"), says("user", "x")}, nil},
		{
			"mistral-tools", []Message{says("user", "a"), says("assistant", "b"), {Role: "assistant", ToolCalls: call}, {Role: "tool", Content: new("x"), ToolCallID: "abcdef123"}, says("system", "s")},
			nil,
		},
		{"qwen3", []Message{says("user", "a"), says("user", "b")}, []Message{says("user", "a"), says("user", "b")}},
		{"qwen3", []Message{says("developer", "d"), says("user", "b")}, []Message{says("system", "d"), says("user", "b")}},
		{"gpt-oss", []Message{says("developer", "d"), says("user", "b")}, []Message{says("developer", "d"), says("user", "b")}},
		{"demo", []Message{says("user", "a"), says("user", "b")}, []Message{says("user", "a"), says("user", "b")}},
		{"demo", []Message{{Role: "user"}, says("usr", "b")}, nil},
	}
	for _, tt := range tests {
		template := family(t, g, tt.template)
		got, err := template.Write(Chat{Messages: tt.messages, Now: g.Now})
		if tt.like == nil {
			if _, first := template.Render(Chat{Messages: tt.messages, Now: g.Now}); err == nil || err.Error() != first.Error() {
				t.Errorf("%s %v: %q, %v, want %v", tt.template, tt.messages, got, err, first)
			}
			continue
		}
		want, wrong := template.Render(Chat{Messages: tt.like, Now: g.Now})
		if err != nil || wrong != nil || got.String() != want.String() {
			t.Errorf("%s %v: %q, %v, want %q, %v", tt.template, tt.messages, got, err, want, wrong)
		}
	}
}

// Every chat that Render can write without developers Write writes the same.
func TestWriteAsRendered(t *testing.T) {
	g := readGolden(t)
	for name := range g.Rendered {
		template := family(t, g, name)
		for i, c := range g.Chats {
			want, err := template.Render(c.chat(g.Now, true))
			if err != nil || c.Messages[0].Role == developer {
				continue
			}
			if got, err := template.Write(c.chat(g.Now, true)); err != nil || got.String() != want.String() {
				t.Errorf("%s, chat %d: %q, %v", name, i, got, err)
			}
		}
	}
}

// A chat goes on where its last message's content ends, whatever its template writes behind that.
func TestContinue(t *testing.T) {
	g := readGolden(t)
	for name := range g.Rendered {
		template := family(t, g, name)
		for _, content := range []string{"a", "The answer is", "{\"a\": ", " b\n", "<|im_end|>", "</s>", "user", "<think>\nx\n</think>\n\nSo", "🙂"} {
			messages := []Message{says("user", "a user asks"), says("assistant", content)}
			whole, err := template.Render(Chat{Messages: messages, Variables: `{"add_generation_prompt": false}`, Now: g.Now})
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.Render(Chat{Messages: messages, Continue: true, Variables: `{"add_generation_prompt": true}`, Now: g.Now})
			ending := strings.TrimSpace(behindOr(content))
			if err != nil || !strings.HasPrefix(whole.String(), got.String()) || !strings.HasSuffix(strings.TrimSpace(got.String()), ending) || strings.Contains(whole.String()[len(got.String()):], ending) && ending != "</s>" && ending != "<|im_end|>" && ending != "a" && ending != "user" {
				t.Errorf("%s, %q: %q, %v of %q", name, content, got, err, whole)
			}
		}
	}
	template := family(t, g, "qwen3")
	empty, calling := "", []Message{says("user", "a"), {Role: "assistant", Content: new("b"), ToolCalls: "[]"}}
	for _, messages := range [][]Message{nil, {says("user", "a")}, {says("user", "a"), says("assistant", " \n")}, {says("user", "a"), {Role: "assistant", Content: &empty}}, {says("user", "a"), {Role: "assistant"}}, calling} {
		if got, err := template.Render(Chat{Messages: messages, Continue: true}); err == nil {
			t.Errorf("%v: %q", messages, got)
		}
	}
	deaf := open(t, "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", nil)
	if got, err := deaf.Render(Chat{Messages: []Message{says("user", "a"), says("assistant", "b")}, Continue: true}); err == nil {
		t.Errorf("%q", got)
	}
}

func behindOr(content string) string {
	if behind := behindThoughts(content); behind != "" {
		return behind
	}
	return content
}
