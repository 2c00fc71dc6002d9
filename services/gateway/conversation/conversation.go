// Package conversation is what every API's reader makes of the turns in a body, and the one writer
// of what the services get of them. So the same conversation has the same prompt, whichever API
// it comes by.
package conversation

import (
	"encoding/json"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Roles that readers give turns themselves.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Conversation is a list of turns. Its zero value has none.
type Conversation struct{ turns []*Turn }

// Turn is what one role says at a time.
type Turn struct {
	// Role is who speaks, and Name who of these.
	Role, Name string
	// Answers is the id of the call whose result a tool's turn has.
	Answers string
	// Text is what is said, and Thoughts what was thought before it.
	Text, Thoughts Text
	// Calls are made behind the text.
	Calls []Call
}

// Text is one that comes in parts. They are joined once, however many there are.
type Text struct{ parts []string }

// Add puts a part behind the others.
func (t *Text) Add(part string) {
	if part != "" {
		t.parts = append(t.parts, part)
	}
}

// String is the whole text.
func (t *Text) String() string {
	if len(t.parts) > 1 {
		t.parts = []string{strings.Join(t.parts, "")}
	}
	if len(t.parts) == 0 {
		return ""
	}
	return t.parts[0]
}

// Call is a call of a tool.
type Call struct {
	ID, Name  string
	Arguments json.RawMessage
}

// Begin begins a turn.
func (c *Conversation) Begin(role string) *Turn {
	t := &Turn{Role: role}
	c.turns = append(c.turns, t)
	return t
}

// Continue returns the newest turn where it is the role's, and begins one where it is not.
func (c *Conversation) Continue(role string) *Turn {
	if t := c.newest(); t != nil && t.Role == role {
		return t
	}
	return c.Begin(role)
}

func (c *Conversation) newest() *Turn {
	if len(c.turns) == 0 {
		return nil
	}
	return c.turns[len(c.turns)-1]
}

// failure begins the result of a call that failed: templates know texts alone.
const failure = "Error: "

// Result adds the turn of a tool that was called.
func (c *Conversation) Result(call, text string, failed bool) {
	if failed {
		text = failure + text
	}
	t := c.Begin(Tool)
	t.Answers = call
	t.Text.Add(text)
}

// Begun reports whether the conversation ends with the beginning of an answer.
func (c *Conversation) Begun() bool {
	t := c.newest()
	return t != nil && t.Role == Assistant && strings.TrimSpace(t.Text.String()) != "" && len(t.Calls) == 0
}

// Messages are the turns as services get them. Beside calls a text that is empty is none.
func (c *Conversation) Messages() (out []*pb.ChatMessage) {
	for _, t := range c.turns {
		m := &pb.ChatMessage{Role: t.Role, Name: t.Name, ToolCallId: t.Answers, ReasoningContent: t.Thoughts.String(), ToolCalls: written(t.Calls)}
		if text := t.Text.String(); text != "" || len(t.Calls) == 0 {
			m.Content = &text
		}
		out = append(out, m)
	}
	return out
}

// written are calls in the one form that chat templates get: arguments are the values that they
// are, and keys stand in their order.
func written(calls []Call) string {
	if len(calls) == 0 {
		return ""
	}
	type function struct {
		Arguments json.RawMessage `json:"arguments"`
		Name      string          `json:"name"`
	}
	type call struct {
		Function function `json:"function"`
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type"`
	}
	var all []call
	for _, c := range calls {
		all = append(all, call{function{c.Arguments, c.Name}, c.ID, "function"})
	}
	list, _ := json.Marshal(all) // of what was JSON
	return string(list)
}

// Arguments are a call's, given as a text of JSON. None at all are an empty object, and what is
// no JSON stays a text.
func Arguments(text string) json.RawMessage {
	if bare := strings.TrimSpace(text); bare == "" || bare == "null" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // of a string it cannot fail
	return quoted
}
