package openai

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// textEvent is what most events of a stream are: a text that is added to one answer, and nothing
// else. Its JSON is written but once, around the answer's number and the text.
type textEvent struct {
	before, between, after []byte
	index                  int
	text                   string
}

// newTextEvent returns an event of a reply's kind. A chat has its texts as the content of a delta.
func newTextEvent(h Head, chat bool) *textEvent {
	var choice any = CompletionChoice{}
	if chat {
		choice = ChatChoice{Delta: &Delta{Content: new("")}}
	}
	before, after, _ := bytes.Cut(jsonOf(h.chat([]ChatChoice{}, nil)), []byte(`"choices":[]`)) // a completion has the same fields
	between, rest, _ := bytes.Cut(bytes.TrimPrefix(jsonOf(choice), []byte(`{"index":0`)), []byte(`""`))
	return &textEvent{
		before:  append(before[:len(before):len(before)], `"choices":[{"index":`...),
		between: between,
		after:   append(append(rest[:len(rest):len(rest)], ']'), after...),
	}
}

// AppendJSON writes the event behind what there is.
func (e *textEvent) AppendJSON(to []byte) []byte {
	to = strconv.AppendInt(append(to, e.before...), int64(e.index), 10)
	return append(appendString(append(to, e.between...), e.text), e.after...)
}

// appendString writes a string as JSON.
func appendString(to []byte, s string) []byte {
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
			return append(to, jsonOf(s)...) // with escapes
		}
	}
	return append(append(append(to, '"'), s...), '"')
}

// jsonOf returns the JSON of what can always be written as JSON.
func jsonOf(v any) []byte {
	data, _ := Encode(v) // as said
	return data
}
