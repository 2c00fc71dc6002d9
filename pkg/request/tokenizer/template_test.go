package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestTemplateErrors(t *testing.T) {
	tests := []struct{ source, want string }{
		{"{% for %}", "parsing chat template"},
		{"{{ raise_exception('roles must alternate') }}", "refuses the messages: roles must alternate"},
		{"{% for i in range(1000000000) %}x{% endfor %}", "longer than 100000"},
		{"{{ range(0, 5, 0) }}", "not 0"},
		{"{% for i in range(100000) %}{% for j in range(100000) %}" + strings.Repeat("x", 1000) + "{% endfor %}{% endfor %}", "longer than"},
		{strings.Repeat("{{ 1 }}", 1<<16), "above the limit"},
		{"{{ " + strings.Repeat("(", 1<<15), "nested"},
		{"{{ " + strings.Repeat("-", 1<<15) + "1 }}", ""},
		{"{{ " + strings.Repeat("not ", 1<<13) + "1", ""},
		{strings.Repeat("{% if 1 %}", 6000), ""},
		{"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "too deep"},
		{"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "too deep"},
		{"{% macro a(x=a()) %}{% endmacro %}{{ a() }}", "no literal"},
		{"{% block a %}{{ self.a() }}{% endblock %}", "block"},
		{"{% include '/chat_template' %}", "include"},
		{"{% include '/etc/passwd' %}", ""},
		{"{% import '../tokenizer.go' as x %}", ""},
		{"{{ messages.nothing.at.all }}", ""},
	}
	for _, tt := range tests {
		template, err := NewTemplate(tt.source, nil)
		if err == nil {
			_, err = template.Render([]Message{{"user", "hi"}}, true)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: got %v, want an error with %q", tt.source, err, tt.want)
		}
	}
}

func TestTemplateSources(t *testing.T) {
	tests := []struct{ config, jinja, want, err string }{
		{`{"chat_template":"A{{ bos_token }}","bos_token":"<s>"}`, "", "A<s>", ""},
		{`{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`, "", "D", ""},
		{`{"chat_template":"A"}`, "J{{ eos_token }}", "J", ""},
		{`{}`, "", "", ""},
		{`{"chat_template":[{"name":"tool_use","template":"T"}]}`, "", "", `"default"`},
		{`{"chat_template":7}`, "", "", "neither"},
	}
	for _, tt := range tests {
		files := func(name string) ([]byte, bool) {
			switch name {
			case "tokenizer_config.json":
				return []byte(tt.config), true
			case "chat_template.jinja":
				return []byte(tt.jinja), tt.jinja != ""
			}
			return demoFiles(name)
		}
		tok, err := Open(files)
		if err != nil {
			t.Fatal(err)
		}
		template, err := tok.ChatTemplate(files)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want an error with %q", tt.config, err, tt.err)
			}
			continue
		}
		if err != nil || (template == nil) != (tt.want == "") {
			t.Errorf("%s: %v, %v", tt.config, template, err)
		} else if template != nil {
			if got, err := template.Render(nil, false); err != nil || got != tt.want {
				t.Errorf("%s: got %q, %v, want %q", tt.config, got, err, tt.want)
			}
		}
	}
}

func TestRenderConcurrently(t *testing.T) {
	tok := openTest(t, "demo")
	template, err := tok.ChatTemplate(demoFiles)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := template.Render([]Message{{"user", "Hi"}}, true); err != nil || got != "<|endoftext|><|user|>Hi\n<|assistant|>" {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m.role | tojson }}{% endfor %}")
	f.Add("{{ messages[-1]['content'].split(' ')[0] }}")
	f.Fuzz(func(t *testing.T, source string) {
		if strings.Contains(source, "range") || strings.Contains(source, "lipsum") {
			return // slow on purpose
		}
		template, err := NewTemplate(source, nil)
		if err != nil {
			return
		}
		_, _ = template.Render([]Message{{"user", "hi"}}, true)
	})
}

func TestCheckRoles(t *testing.T) {
	template, err := NewTemplate(`{% for m in messages %}{% if m.role == 'ipython' %}tool{% else %}{{ m.role }}{% endif %}{% endfor %}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for role, known := range map[string]bool{"user": true, "system": true, "ipython": true, "usr": false, "": false, "python": false} {
		err := template.CheckRoles([]Message{{Role: "user"}, {Role: role}})
		if (err == nil) != known || !known && !strings.Contains(err.Error(), fmt.Sprintf("messages[1] has role %q", role)) {
			t.Errorf("%q: %v", role, err)
		}
	}
}
