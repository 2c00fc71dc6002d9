package calls

import (
	"strconv"
	"strings"
)

// tagged reads calls as objects between two marks:
//
//	<tool_call>{"name": "f", "arguments": {}}</tool_call>
type tagged struct {
	call *object
	more bool // something that is not to be there stands behind the object
}

func newTagged(*Syntax) machine { return &tagged{} }

func (m *tagged) text(r *Reader, text string) {
	if m.call == nil {
		r.content(text)
		return
	}
	rest := m.call.push(r, text)
	if !m.call.opened {
		m.call.raw.WriteString(rest) // of what is no call
		return
	}
	if !m.more {
		rest = strings.TrimLeft(rest, white)
	}
	if rest != "" {
		m.more = true
		r.content(rest)
	}
}

func (m *tagged) mark(r *Reader, mark string) {
	switch {
	case m.call == nil && mark == callOpen:
		m.call, m.more = &object{}, false
	case m.call != nil && mark == callClose:
		m.finish(r, mark)
	default:
		m.text(r, mark)
	}
}

func (m *tagged) reading() (is bool, json *value) { return m.call != nil, m.call.json() }

func (m *tagged) finish(r *Reader, mark string) {
	call := m.call
	m.call = nil
	if call.opened {
		r.closed()
		return
	}
	r.content(callOpen + call.raw.String() + mark)
}

func (m *tagged) end(r *Reader) {
	if m.call != nil {
		m.finish(r, "")
	}
}

func taggedForm(s *Syntax, name string) (before, after string) {
	return s.token(callOpen) + "\n" + `{"name": ` + strconv.Quote(name) + `, "arguments": `, "}\n" + s.token(callClose)
}
