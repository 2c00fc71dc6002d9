package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

const (
	templateFile = "/chat_template" // its name for the template engine
	// maxRendered bounds what a template makes, in bytes; maxRange is the
	// bound that Jinja's sandbox sets on range().
	maxRendered = 64 << 20
	maxRange    = 100_000
)

// Message is one turn of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Template writes chats as the model was taught to read them. It is safe for
// concurrent use.
type Template struct {
	source string
	parsed *exec.Template
	tokens map[string]any // bos_token and its like
}

// ChatTemplate reads the model's chat template: chat_template.jinja or else
// tokenizer_config.json's chat_template. files is as for Open. It is nil,
// without an error, where the model has none.
func (t *Tokenizer) ChatTemplate(files func(name string) ([]byte, bool)) (*Template, error) {
	source, err := t.config.template(files)
	if err != nil || source == "" {
		return nil, err
	}
	tokens := map[string]any{}
	for name, token := range map[string]tokenJSON{"bos_token": t.config.BOS, "eos_token": t.config.EOS, "pad_token": t.config.PAD, "unk_token": t.config.UNK} {
		if token != "" {
			tokens[name] = string(token)
		}
	}
	return NewTemplate(source, tokens)
}

// template finds the source; "" where there is none. A list of templates has
// one called "default".
func (c *configJSON) template(files func(string) ([]byte, bool)) (string, error) {
	if data, ok := files("chat_template.jinja"); ok {
		return string(data), nil
	}
	if len(c.ChatTemplate) == 0 || string(c.ChatTemplate) == "null" {
		return "", nil
	}
	var source string
	if json.Unmarshal(c.ChatTemplate, &source) == nil {
		return source, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(c.ChatTemplate, &named); err != nil {
		return "", fmt.Errorf("tokenizer_config.json: chat_template is neither a string nor a list of them: %w", err)
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", errors.New("tokenizer_config.json: no chat_template of the list is called \"default\"")
}

// NewTemplate parses a Jinja template as transformers does: blocks swallow the
// newline after and the blanks before them; raise_exception is there; other
// files cannot be included. variables are set besides messages,
// add_generation_prompt, tools and documents.
//
// strftime_now is not there, so that a prompt does not depend on the day;
// templates fall back to a date of their own.
func NewTemplate(source string, variables map[string]any) (t *Template, err error) {
	defer recovered(&err, "parsing chat template")
	if err := checkSource(source); err != nil {
		return nil, fmt.Errorf("parsing chat template: %w", err)
	}
	loader, err := loaders.NewMemoryLoader(map[string]string{templateFile: source})
	if err != nil {
		return nil, fmt.Errorf("parsing chat template: %w", err)
	}
	c := config.New()
	c.TrimBlocks, c.LeftStripBlocks = true, true
	parsed, err := exec.NewTemplate(templateFile, c, loader, environment())
	if err != nil {
		return nil, fmt.Errorf("parsing chat template: %w", err)
	}
	return &Template{source, parsed, maps.Clone(variables)}, nil
}

// environment is Jinja's with transformers' changes.
func environment() *exec.Environment {
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters)
	_ = filters.Replace("tojson", toJSON) // known to be there
	globals := exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables)
	globals.Set("range", boundedRange)
	return &exec.Environment{
		Context:           globals,
		Filters:           filters,
		Tests:             builtins.Tests,
		ControlStructures: controlStructures(),
		Methods:           methods(),
	}
}

// Render writes a chat. With addGenerationPrompt it ends where the model's
// answer begins. The text holds the special tokens that it needs, so it is
// encoded with special and without a BOS of EncodePrompt's. An error that the
// template raises, such as for roles in the wrong order, is the caller's fault.
func (t *Template) Render(messages []Message, addGenerationPrompt bool) (text string, err error) {
	defer recovered(&err, "rendering chat template")
	raised := ""
	data := exec.NewContext(map[string]any{
		"messages":              turns(messages),
		"add_generation_prompt": addGenerationPrompt,
		"tools":                 nil,
		"documents":             nil,
		"raise_exception": func(_ *exec.Evaluator, params *exec.VarArgs) (string, error) {
			raised = params.First().String()
			return "", errors.New(raised)
		},
	}).Update(exec.NewContext(t.tokens))
	out := &boundedBuffer{}
	if err := t.parsed.Execute(out, data); err != nil {
		if raised != "" {
			return "", fmt.Errorf("chat template refuses the messages: %s", raised)
		}
		return "", fmt.Errorf("rendering chat template: %w", err)
	}
	return out.String(), nil
}

// turns gives the template dictionaries that keep the order of their keys.
func turns(messages []Message) list {
	out := make(list, len(messages))
	for i, m := range messages {
		out[i] = &exec.Dict{Pairs: []*exec.Pair{
			{Key: exec.AsValue("role"), Value: exec.AsValue(m.Role)},
			{Key: exec.AsValue("content"), Value: exec.AsValue(m.Content)},
		}}
	}
	return out
}

// recovered turns a panic of the template engine into an error: templates come
// from outside.
func recovered(err *error, act string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: the template engine panicked: %v", act, p)
	}
}

// boundedBuffer refuses to grow beyond maxRendered.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("the text is longer than %d bytes", maxRendered)
	}
	return b.Buffer.Write(p)
}

// WriteString hides bytes.Buffer's, which knows no bound.
func (b *boundedBuffer) WriteString(s string) (int, error) { return b.Write([]byte(s)) }
