package chat

import (
	"strings"

	"github.com/switchyard/switchyard/pkg/request/jinja"
)

// mayGoOn reports whether an answer can go on with a message.
func (m Message) mayGoOn() bool {
	return m.Role == assistant && m.Content != nil && strings.TrimSpace(*m.Content) != "" && m.ToolCalls == ""
}

const assistant, thoughtsEnd = "assistant", "</think>"

// begun returns a chat up to where its last message's content ends. Templates may write it without the
// white space around it, or without the thoughts that it begins with.
func begun(text jinja.Text, last Message) (jinja.Text, error) {
	whole := *last.Content
	bare := strings.TrimSpace(whole)
	for _, content := range []string{whole, bare, behindThoughts(bare)} {
		if end := endOf(text, content); end > 0 {
			return text.Before(end), nil
		}
	}
	return jinja.Text{}, refuse("the chat template does not write the last message as it is: an answer cannot go on with it")
}

func behindThoughts(content string) string {
	at := strings.LastIndex(content, thoughtsEnd)
	if at < 0 {
		return ""
	}
	return strings.TrimSpace(content[at+len(thoughtsEnd):])
}

// endOf returns where the last place of what somebody sent ends in a text; 0: it is not there.
func endOf(text jinja.Text, sent string) (end int) {
	at := 0
	text.Pieces(func(s string, outside bool) {
		if i := strings.LastIndex(s, sent); outside && sent != "" && i >= 0 {
			end = at + i + len(sent)
		}
		at += len(s)
	})
	return end
}
