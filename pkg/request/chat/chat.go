package chat

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/request/calls"
	"github.com/switchyard/switchyard/pkg/request/jinja"
)

// Message is one turn of a chat. What is nil or empty, but for the role, is not
// there for the template.
type Message struct {
	Role             string
	Content          *string
	Name, ToolCallID string
	Reasoning        string // what the model thought before the content
	ToolCalls        string // JSON
}

// Chat is what a template writes.
type Chat struct {
	Messages []Message
	// Tools are what the model may call: a JSON array of their descriptions.
	Tools string
	// Variables are more of what the template sees: a JSON object. Those that
	// Render sets itself are replaced by them.
	Variables string
	// Continue says that the last message is an assistant's that the answer goes on with.
	Continue bool
	// Now is the time that a template may write.
	Now time.Time
}

// Render writes a chat, up to where the model's answer begins or goes on. Errors are the
// caller's fault, or the template's: *Refusal if the chat is not one that the
// template knows, else an error that names the template and the line.
func (t *Template) Render(c Chat) (jinja.Text, error) {
	if err := t.checkRoles(c.Messages); err != nil {
		return jinja.Text{}, err
	}
	if n := len(c.Messages); c.Continue && (n == 0 || !c.Messages[n-1].mayGoOn()) {
		return jinja.Text{}, refuse("continue_final needs a last message of the assistant that has content, and no calls")
	}
	variables, err := t.variables(c)
	if err != nil {
		return jinja.Text{}, err
	}
	text, err := t.choose(c).Render(variables, c.size())
	var raised *jinja.Raised
	if errors.As(err, &raised) {
		return jinja.Text{}, refuse("the chat template refuses the messages: %s", raised.Message)
	}
	if err == nil && c.Continue {
		return begun(text, c.Messages[len(c.Messages)-1])
	}
	return text, err
}

// Refusal says what is wrong with a chat.
type Refusal struct{ why string }

func (r *Refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

func (t *Template) choose(c Chat) parsed {
	if p, ok := t.byName[toolUse]; ok && c.Tools != "" {
		return p
	}
	return t.byName[byDefault]
}

// size is how many bytes somebody sent.
func (c Chat) size() int {
	n := len(c.Tools) + len(c.Variables)
	for _, m := range c.Messages {
		n += len(m.Role) + len(m.Name) + len(m.ToolCallID) + len(m.Reasoning) + len(m.ToolCalls)
		if m.Content != nil {
			n += len(*m.Content)
		}
	}
	return n
}

// maxTools bounds what a model may call, as a gateway does.
const maxTools = 1024

// variables are what transformers gives a template.
func (t *Template) variables(c Chat) (map[string]any, error) {
	out := map[string]any{"tools": nil, "documents": nil, "add_generation_prompt": true, "strftime_now": jinja.StrftimeNow(c.Now)}
	for name, token := range t.tokens {
		out[name] = jinja.Inside(token)
	}
	var messages []any
	for i, m := range c.Messages {
		turn, err := m.value()
		if err != nil {
			return nil, refuse("messages[%d].tool_calls: %v", i, err)
		}
		messages = append(messages, turn)
	}
	out["messages"] = jinja.NewList(messages...)
	if c.Tools != "" {
		tools, err := jsonOf[*jinja.List](c.Tools, "an array")
		if err != nil {
			return nil, refuse("tools: %v", err)
		}
		if n := len(tools.Items()); n > maxTools {
			return nil, refuse("tools has %d tools; at most %d are allowed", n, maxTools)
		}
		out["tools"] = tools
	}
	if c.Variables != "" {
		more, err := jsonOf[*jinja.Dict](c.Variables, "an object")
		if err != nil {
			return nil, refuse("chat_template_kwargs: %v", err)
		}
		maps.Copy(out, more.Map())
	}
	if c.Continue {
		out["add_generation_prompt"] = false
	}
	return out, nil
}

// jsonOf reads a JSON value that must be of a kind.
func jsonOf[T any](raw, kind string) (out T, err error) {
	v, err := jinja.FromJSON([]byte(raw))
	if err != nil {
		return out, fmt.Errorf("reading JSON: %w", err)
	}
	out, ok := v.(T)
	if !ok {
		return out, fmt.Errorf("it must be %s", kind)
	}
	return out, nil
}

// value is the dictionary that a template sees. What the model thought has two
// names, as in transformers: gpt-oss's templates read the second.
func (m Message) value() (*jinja.Dict, error) {
	d := jinja.NewDict()
	if slices.Contains(roles, m.Role) {
		d.Set("role", jinja.Inside(m.Role)) // some templates build special tokens of it
	} else {
		d.Set("role", jinja.Outside(m.Role))
	}
	if m.Content != nil {
		d.Set("content", jinja.Outside(*m.Content))
	}
	for _, field := range []struct{ name, value string }{
		{"name", m.Name}, {"tool_call_id", m.ToolCallID}, {"reasoning_content", m.Reasoning}, {"thinking", m.Reasoning},
	} {
		if field.value != "" {
			d.Set(field.name, jinja.Outside(field.value))
		}
	}
	if m.ToolCalls != "" {
		calls, err := jsonOf[*jinja.List](m.ToolCalls, "an array")
		if err != nil {
			return nil, err
		}
		fillArguments(calls)
		d.Set("tool_calls", calls)
	}
	return d, nil
}

// fillArguments gives calls without arguments empty ones, as clients mean it that send null, a
// text without anything in it, or no arguments at all.
func fillArguments(calls *jinja.List) {
	for _, call := range calls.Items() {
		c, _ := call.(*jinja.Dict)
		if c == nil {
			continue
		}
		function, _ := c.Map()["function"].(*jinja.Dict)
		if function == nil {
			continue
		}
		arguments, text := function.Map()["arguments"], ""
		if t, is := arguments.(jinja.Text); is {
			text = strings.TrimSpace(t.String())
			arguments = nil
		}
		if arguments == nil && (text == "" || text == "null") {
			function.Set("arguments", jinja.NewDict())
		}
	}
}

// roles are those that chats have everywhere.
var roles = []string{"system", "developer", "user", "assistant", "tool"}

// checkRoles refuses roles that are neither usual nor named by a template. Most
// templates write whatever role they get, which the model never saw.
func (t *Template) checkRoles(messages []Message) error {
	for i, m := range messages {
		if slices.Contains(roles, m.Role) || m.Role != "" && t.quotes(m.Role) {
			continue
		}
		return refuse("messages[%d] has role %.40q; use one of %s, or another one that the model's chat template names",
			i, m.Role, strings.Join(roles, ", "))
	}
	return nil
}

// quotes reports whether a word is a string in a template.
func (t *Template) quotes(word string) bool {
	for _, p := range t.byName {
		if strings.Contains(p.source, "'"+word+"'") || strings.Contains(p.source, `"`+word+`"`) {
			return true
		}
	}
	return false
}

// Writes reports whether a template has this token in it, as text or in a string:
// then it means something to the model in a chat, whether or not the tokenizer
// calls it special.
func (t *Template) Writes(token string) bool {
	if strings.TrimSpace(token) == "" {
		return false
	}
	for _, p := range t.byName {
		if strings.Contains(p.source, token) {
			return true
		}
	}
	return false
}

// Syntax is how the model writes calls of tools, by its template and the ids of its vocabulary's
// tokens. A nil Template is a model's that has none.
func (t *Template) Syntax(id func(token string) (uint32, bool)) *calls.Syntax {
	if t == nil {
		return calls.Find(nil, id)
	}
	return calls.Find(t, id)
}
