package chat

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/request/jinja"
)

// Files returns a file of the model's folder.
type Files func(name string) ([]byte, bool)

// The names of templates. Chats with tools use toolUse where there is one.
const (
	byDefault = "default"
	toolUse   = "tool_use"
)

const configFile, processorFile = "tokenizer_config.json", "chat_template.json"

// source is a template's text and what errors call it.
type source struct{ name, text string }

// sources finds a model's templates by name, as transformers does: in
// chat_template.jinja, else in tokenizer_config.json, else in a processor's
// chat_template.json.
func sources(files Files, config *configJSON) (map[string]source, error) {
	if data, ok := files("chat_template.jinja"); ok {
		out := map[string]source{byDefault: {"chat_template.jinja", string(data)}}
		const more = "chat_templates/" + toolUse + ".jinja"
		if data, ok := files(more); ok {
			out[toolUse] = source{more, string(data)}
		}
		return out, nil
	}
	file, raw := configFile, config.ChatTemplate
	if len(raw) == 0 || string(raw) == "null" {
		var processor struct {
			ChatTemplate json.RawMessage `json:"chat_template"`
		}
		data, ok := files(processorFile)
		if !ok {
			return nil, nil
		}
		if err := json.Unmarshal(data, &processor); err != nil {
			return nil, fmt.Errorf("%s: reading JSON: %w", processorFile, err)
		}
		file, raw = processorFile, processor.ChatTemplate
	}
	return named(file, raw)
}

// named reads one template, or a list of them with names.
func named(file string, raw json.RawMessage) (map[string]source, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return map[string]source{byDefault: {file + ": chat_template", text}}, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s: chat_template is neither a string nor a list of templates with names: %w", file, err)
	}
	out := map[string]source{}
	for _, t := range list {
		out[t.Name] = source{fmt.Sprintf("%s: chat_template %q", file, t.Name), t.Template}
	}
	if _, ok := out[byDefault]; !ok {
		return nil, fmt.Errorf("%s: no chat_template of the list is called %q", file, byDefault)
	}
	return out, nil
}

// configJSON is what matters here of tokenizer_config.json.
type configJSON struct {
	ChatTemplate json.RawMessage `json:"chat_template"`
	tokens       map[string]string
}

// specialTokens are the names under which templates know special tokens.
var specialTokens = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

func readConfig(files Files) (*configJSON, error) {
	c := &configJSON{tokens: map[string]string{}}
	data, ok := files(configFile)
	if !ok {
		return c, nil
	}
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, c), json.Unmarshal(data, &all)); err != nil {
		return nil, fmt.Errorf("%s: reading JSON: %w", configFile, err)
	}
	for _, name := range specialTokens {
		token, err := tokenText(all[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", configFile, name, err)
		}
		if token != "" {
			c.tokens[name] = token
		}
	}
	return c, nil
}

// tokenText reads a token: a string, an object with content, or null.
func tokenText(raw json.RawMessage) (text string, err error) {
	if len(raw) > 0 && raw[0] == '{' {
		var object struct{ Content string }
		err = json.Unmarshal(raw, &object)
		return object.Content, err
	}
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &text)
	}
	return text, err
}

// Template is a model's chat templates. It is safe for concurrent use.
type Template struct {
	byName map[string]parsed
	tokens map[string]string // bos_token and its like
}

type parsed struct {
	*jinja.Template
	source string
}

// Open reads the chat templates of a model's folder. It is nil, without an error,
// where the model has none. Errors name the file, and the line of a template.
func Open(files Files) (*Template, error) {
	config, err := readConfig(files)
	if err != nil {
		return nil, err
	}
	found, err := sources(files, config)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	t := &Template{byName: map[string]parsed{}, tokens: config.tokens}
	for name, s := range found {
		p, err := jinja.Parse(s.name, s.text)
		if err != nil {
			return nil, err
		}
		t.byName[name] = parsed{p, s.text}
	}
	return t, nil
}
