package chat

import (
	"strings"
	"testing"
)

// A model's folder has templates that can be run, has none, or an error names the file.
func FuzzOpen(f *testing.F) {
	f.Add(`{"chat_template": "{{ bos_token }}", "bos_token": {"content": "<s>"}}`, "", "")
	f.Add(`{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}`, "", "")
	f.Add(`{"chat_template": null}`, `{"chat_template": "x"}`, "")
	f.Add(`{"bos_token": 3}`, `[]`, "{% for x in y %}")
	f.Add("", "{", "{{ 'a' }}")
	f.Fuzz(func(t *testing.T, config, processor, template string) {
		files := map[string]string{}
		for name, text := range map[string]string{configFile: config, processorFile: processor, "chat_template.jinja": template} {
			if text != "" {
				files[name] = text
			}
		}
		got, err := Open(folder(files))
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), configFile) && !strings.Contains(err.Error(), processorFile) && !strings.Contains(err.Error(), "chat_template") {
				t.Errorf("%v names no file", err)
			}
		case got != nil && got.byName[byDefault].Template == nil:
			t.Errorf("%d templates, none of them %s", len(got.byName), byDefault)
		}
	})
}
