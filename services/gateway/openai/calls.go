package openai

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
)

// Marks that models of many families put around what they think, and around calls of tools.
const (
	thinkOpen, thinkClose = "<think>", "</think>"
	callOpen, callClose   = "<tool_call>", "</tool_call>"
)

// marked is a part of an answer between two marks.
type marked struct{ open, end string }

var thinking, calling = marked{thinkOpen, thinkClose}, marked{callOpen, callClose}

// Call is a part of an answer that asks for a tool: its name first, then its arguments.
type Call struct {
	Index     int
	ID, Name  string // empty in the parts behind the first
	Arguments string
}

// Said is a part of an answer: text, thoughts, or a call.
type Said struct {
	Content, Reasoning string
	Call               *Call
}

// Sayer tells thoughts and calls from the rest of a text that comes in pieces. What may become
// a mark is held back.
type Sayer struct {
	request string
	tools   bool // there are any, so that calls are looked for

	held  string
	inner string // the mark that would end what is under way; empty: the text
	began bool   // something other than white space has come
	trim  bool   // the lines behind thoughts are empty so far
	calls int
}

// NewSayer is for a request's answer, in which there may be calls if there are tools.
func NewSayer(request string, tools bool) *Sayer { return &Sayer{request: request, tools: tools} }

// Push takes a piece of text in.
func (s *Sayer) Push(text string) (out []Said) {
	s.held += text
	for {
		said, more := s.next()
		if said != nil {
			out = append(out, *said)
		}
		if !more {
			return out
		}
	}
}

// next takes what is decided off what is held; more: there may be further.
func (s *Sayer) next() (said *Said, more bool) {
	if s.inner != "" {
		before, after, closed := strings.Cut(s.held, s.inner)
		if s.inner == callClose {
			if !closed {
				return nil, false
			}
			s.held, s.inner = after, ""
			return s.call(before), true
		}
		if closed {
			s.held, s.inner, s.trim = after, "", true
			return reasoned(before), true
		}
		keep := overlap(s.held, thinkClose)
		said, s.held = reasoned(s.held[:len(s.held)-keep]), s.held[len(s.held)-keep:]
		return said, false
	}
	for _, m := range s.marks() {
		before, after, opened := strings.Cut(s.held, m.open)
		if opened && (m == calling || strings.TrimSpace(before) == "") {
			s.held, s.inner, s.began = after, m.end, true
			if m == thinking {
				return nil, true
			}
			return s.text(before), true
		}
	}
	keep := 0
	for _, m := range s.marks() {
		keep = max(keep, overlap(s.held, m.open))
	}
	said, s.held = s.text(s.held[:len(s.held)-keep]), s.held[len(s.held)-keep:]
	return said, false
}

// marks are those that may come, with those that end them: thoughts only before all else.
func (s *Sayer) marks() (all []marked) {
	if !s.began {
		all = append(all, thinking)
	}
	if s.tools {
		all = append(all, calling)
	}
	return all
}

func (s *Sayer) text(text string) *Said {
	if s.trim {
		text = strings.TrimLeft(text, "\n")
		s.trim = text == ""
	}
	if text == "" {
		return nil
	}
	s.began = s.began || strings.TrimSpace(text) != ""
	return &Said{Content: text}
}

func reasoned(text string) *Said {
	if text == "" {
		return nil
	}
	return &Said{Reasoning: text}
}

// call reads what stood between the marks of a call. What is none stays text.
func (s *Sayer) call(text string) *Said {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if json.Unmarshal([]byte(text), &c) != nil || c.Name == "" {
		return &Said{Content: callOpen + text + callClose}
	}
	arguments := string(c.Arguments)
	if arguments == "" {
		arguments = string(c.Parameters)
	}
	if arguments == "" || arguments == "null" {
		arguments = "{}"
	}
	s.calls++
	return &Said{Call: &Call{Index: s.calls - 1, ID: callID(s.request, s.calls), Name: c.Name, Arguments: arguments}}
}

// callID is the same whenever the same answer is told.
func callID(request string, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", request, number))
	return "call_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

// End takes what is still held at the end of the answer. A call that was cut is one if it is whole.
func (s *Sayer) End() (out []Said) {
	text, inner := s.held, s.inner
	s.held, s.inner = "", ""
	switch {
	case inner == callClose:
		if said := s.call(text); said.Call != nil {
			return []Said{*said}
		}
		return []Said{{Content: callOpen + text}}
	case inner == thinkClose && text != "":
		return []Said{{Reasoning: text}}
	}
	if said := s.text(text); said != nil {
		return []Said{*said}
	}
	return nil
}

// overlap is how many bytes at the end of a text may begin a mark.
func overlap(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
