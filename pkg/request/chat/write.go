package chat

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/request/jinja"
)

const system, developer, user, tool = "system", "developer", "user", "tool"

// Write writes a chat as Render does. Where a template has no developers they are the system, for
// most templates drop who they do not know. A chat that the template cannot write is written
// with turns that alternate behind one system message, if it has others.
func (t *Template) Write(c Chat) (jinja.Text, error) {
	if !t.quotes(developer) {
		c.Messages = slices.Clone(c.Messages)
		for i := range c.Messages {
			if c.Messages[i].Role == developer {
				c.Messages[i].Role = system
			}
		}
	}
	text, err := t.Render(c)
	if err == nil {
		return text, nil
	}
	plain := c
	if plain.Messages = t.alternating(c.Messages); len(plain.Messages) == 0 {
		return text, err
	}
	if again, none := t.Render(plain); none == nil {
		return again, nil
	}
	return text, err // which is of the chat as it was sent
}

// alternating returns messages with consecutive ones of a role joined. What the system says behind the
// beginning is said by the user, and so are results where a template has no tools. Every message
// has content.
func (t *Template) alternating(messages []Message) (out []Message) {
	for _, m := range messages {
		n := len(out)
		if m.Role == system && n > 0 && out[n-1].Role != system || m.Role == tool && !t.quotes(tool) {
			m.Role = user
		}
		if m.Content == nil {
			m.Content = new("")
		}
		if n > 0 && out[n-1].joins(m) {
			out[n-1] = out[n-1].with(m)
			continue
		}
		out = append(out, m)
	}
	return out
}

// joins reports whether a message goes on with this one's turn. Results are of a call each.
func (m Message) joins(next Message) bool {
	return m.Role == next.Role && m.Role != tool && m.ToolCalls == ""
}

// with returns a message with the next one of its turn behind it.
func (m Message) with(next Message) Message {
	m.Content = new(paragraphs(*m.Content, *next.Content))
	m.Reasoning = paragraphs(m.Reasoning, next.Reasoning)
	m.ToolCalls = next.ToolCalls
	return m
}

func paragraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
