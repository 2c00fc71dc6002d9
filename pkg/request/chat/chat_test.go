package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
)

// golden is testdata/golden.json.gz; see make.py there.
type golden struct {
	Tokens   map[string]string
	Now      time.Time
	Chats    []goldenChat
	Rendered map[string][][2]*string
}

type goldenChat struct {
	Messages []struct {
		Role       string
		Content    *string
		Name       string
		ToolCallID string          `json:"tool_call_id"`
		Reasoning  string          `json:"reasoning_content"`
		ToolCalls  json.RawMessage `json:"tool_calls"`
	}
	Tools, Kwargs json.RawMessage
}

func readGolden(t testing.TB) (g golden) {
	t.Helper()
	testkit.ReadJSON(t, "testdata/golden.json.gz", &g)
	return g
}

// chat is the chat as a producer sends it; without prompt it does not end where
// the answer begins.
func (c goldenChat) chat(now time.Time, prompt bool) Chat {
	out := Chat{Tools: string(c.Tools), Variables: string(c.Kwargs), Now: now}
	if !prompt {
		out.Variables = `{"add_generation_prompt": false` + strings.Replace("}"+out.Variables, "}{", ", ", 1)
	}
	for _, m := range c.Messages {
		out.Messages = append(out.Messages, Message{m.Role, m.Content, m.Name, m.ToolCallID, m.Reasoning, string(m.ToolCalls)})
	}
	return out
}

// open makes a template of one file, as a model's folder has it.
func open(t testing.TB, source string, tokens map[string]string) *Template {
	t.Helper()
	config, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	template, err := Open(folder(map[string]string{"chat_template.jinja": source, configFile: string(config)}))
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func folder(files map[string]string) Files {
	return func(name string) ([]byte, bool) {
		data, ok := files[name]
		return []byte(data), ok
	}
}

func family(t testing.TB, g golden, name string) *Template {
	t.Helper()
	if name == "demo" {
		return open(t, demoSource(t), g.Tokens)
	}
	source, err := os.ReadFile(filepath.Join("testdata", "templates", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return open(t, string(source), g.Tokens)
}

func demoSource(t testing.TB) string {
	t.Helper()
	var config struct {
		ChatTemplate string `json:"chat_template"`
	}
	data, err := os.ReadFile("../../../models/demo/" + configFile)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return config.ChatTemplate
}

// Chats become what transformers' apply_chat_template makes of them, byte for byte.
func TestGolden(t *testing.T) {
	g := readGolden(t)
	if len(g.Rendered) < 14 {
		t.Fatalf("%d templates", len(g.Rendered))
	}
	for name, want := range g.Rendered {
		t.Run(name, func(t *testing.T) {
			template := family(t, g, name)
			for i, c := range g.Chats {
				for j, text := range want[i] {
					got, err := template.Render(c.chat(g.Now, j == 1))
					if text == nil && err == nil {
						t.Errorf("chat %d: got %q, want an error", i, got)
					} else if text != nil && (err != nil || got.String() != *text) {
						t.Errorf("chat %d:\ngot  %q, %v\nwant %q", i, got, err, *text)
					}
				}
			}
		})
	}
}

func TestSources(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		tools string
		want  string
		err   string
	}{
		{"in the configuration", map[string]string{configFile: `{"chat_template":"A{{ bos_token }}","bos_token":"<s>"}`}, "", "A<s>", ""},
		{"tokens as objects", map[string]string{configFile: `{"chat_template":"{{ bos_token }}{{ pad_token }}|{{ cls_token is defined }}","bos_token":{"content":"<s>"},"pad_token":null}`}, "", "<s>|False", ""},
		{"default of a list", map[string]string{configFile: `{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`}, "", "D", ""},
		{"tools of a list", map[string]string{configFile: `{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`}, "[]", "T", ""},
		{"a list without one for tools", map[string]string{configFile: `{"chat_template":[{"name":"rag","template":"R"},{"name":"default","template":"D"}]}`}, "[]", "D", ""},
		{"own file wins", map[string]string{configFile: `{"chat_template":"A","eos_token":"E"}`, "chat_template.jinja": "J{{ eos_token }}"}, "", "JE", ""},
		{"own file for tools", map[string]string{"chat_template.jinja": "J", "chat_templates/tool_use.jinja": "T"}, "[]", "T", ""},
		{"a processor's", map[string]string{"chat_template.json": `{"chat_template":"P"}`, configFile: `{"chat_template":null}`}, "", "P", ""},
		{"none", map[string]string{configFile: `{}`}, "", "", ""},
		{"nothing", nil, "", "", ""},
		{"no default", map[string]string{configFile: `{"chat_template":[{"name":"tool_use","template":"T"}]}`}, "", "", `"default"`},
		{"a number", map[string]string{configFile: `{"chat_template":7}`}, "", "", "neither"},
		{"no JSON", map[string]string{configFile: `{`}, "", "", "tokenizer_config.json: reading JSON"},
		{"no Jinja", map[string]string{configFile: `{"chat_template":"\n{% for %}"}`}, "", "", "tokenizer_config.json: chat_template, line 2"},
		{"no Jinja in the file", map[string]string{"chat_template.jinja": "{{"}, "", "", "chat_template.jinja, line 1"},
		{"a token that is none", map[string]string{configFile: `{"chat_template":"A","bos_token":3}`}, "", "", "bos_token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			template, err := Open(folder(tt.files))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil || (template == nil) != (tt.want == "") {
				t.Fatalf("%v, %v", template, err)
			}
			if template == nil {
				return
			}
			if got, err := template.Render(Chat{Tools: tt.tools}); err != nil || got.String() != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	source := "{% for m in messages %}{% if m.role == 'ipython' %}x{% endif %}{{ m.content }}{% endfor %}{% if tools %}{{ raise_exception('no tools') }}{% endif %}"
	template := open(t, source, nil)
	hi := "hi"
	tests := []struct {
		name string
		chat Chat
		want string
	}{
		{"a role that nobody knows", Chat{Messages: []Message{{Role: "user"}, {Role: "usr"}}}, `messages[1] has role "usr"`},
		{"an empty role", Chat{Messages: []Message{{}}}, `messages[0] has role ""`},
		{"tools are no array", Chat{Tools: `{"a": 1}`}, "tools: it must be an array"},
		{"too many tools", Chat{Tools: "[" + strings.Repeat("{},", maxTools) + "{}]"}, "tools has 1025 tools; at most 1024 are allowed"},
		{"tools are no JSON", Chat{Tools: `[`}, "tools: reading JSON"},
		{"tool calls are no array", Chat{Messages: []Message{{Role: "assistant", ToolCalls: `"x"`}}}, "messages[0].tool_calls: it must be an array"},
		{"variables are no object", Chat{Variables: `[]`}, "chat_template_kwargs: it must be an object"},
		{"what the template refuses", Chat{Messages: []Message{{Role: "ipython", Content: &hi}}, Tools: `[1]`}, "refuses the messages: no tools"},
	}
	for _, tt := range tests {
		_, err := template.Render(tt.chat)
		var refusal *Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want a refusal with %q", tt.name, err, tt.want)
		}
	}
}

// A call without arguments has empty ones, in its place.
func TestNoArguments(t *testing.T) {
	template := open(t, "{% for m in messages %}{{ m.tool_calls | tojson }}{% endfor %}", nil)
	for _, arguments := range []string{`""`, `" "`, `"\n\t"`, `null`, `"null"`, `"{}"`, `{}`, ``} {
		function := `{"name": "f", "arguments": ` + arguments + `, "x": 1}`
		if arguments == "" {
			function = `{"name": "f", "x": 1}`
		}
		got, err := template.Render(Chat{Messages: []Message{{Role: "assistant", ToolCalls: `[{"id": "1", "function": ` + function + `}]`}}})
		want := `[{"id": "1", "function": {"name": "f", "arguments": {}, "x": 1}}]`
		switch arguments {
		case "":
			want = `[{"id": "1", "function": {"name": "f", "x": 1, "arguments": {}}}]`
		case `"{}"`:
			want = strings.Replace(want, "{}", `"{}"`, 1)
		}
		if err != nil || got.String() != want {
			t.Errorf("%s: %q, %v; want %q", arguments, got, err, want)
		}
	}
	for _, calls := range []string{`[5, {"function": 5}, {}]`, `[]`} {
		if got, err := template.Render(Chat{Messages: []Message{{Role: "assistant", ToolCalls: calls}}}); err != nil || got.String() != calls {
			t.Errorf("%s: %q, %v", calls, got, err)
		}
	}
}

func TestRenderConcurrently(t *testing.T) {
	g := readGolden(t)
	template := family(t, g, "qwen3")
	want := *g.Rendered["qwen3"][7][1]
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if got, err := template.Render(g.Chats[7].chat(g.Now, true)); err != nil || got.String() != want {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRender(f *testing.F) {
	g := readGolden(f)
	var templates []*Template
	for name := range g.Rendered {
		templates = append(templates, family(f, g, name))
	}
	f.Add("user", "Hi", "jack", `[{"function": {"name": "f", "arguments": {}}, "id": "123456789"}]`, `[{"function": {"name": "f", "description": "d"}}]`, `{"thinking": true}`)
	f.Add("tool", "<|im_end|>", "", "", "", "")
	f.Fuzz(func(t *testing.T, role, content, name, calls, tools, variables string) {
		messages := []Message{{Role: role, Content: &content}, {Role: "assistant", Name: name, ToolCalls: calls}, {Role: role, Content: &content, ToolCallID: name, Reasoning: name}}
		for _, template := range templates {
			_, _ = template.Render(Chat{Messages: messages, Tools: tools, Variables: variables, Now: g.Now})
			_, _ = template.Write(Chat{Messages: messages, Tools: tools, Variables: variables, Continue: true, Now: g.Now})
		}
	})
}
