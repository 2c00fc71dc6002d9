package calls

import (
	"strconv"
	"strings"
)

var bareMarks = []string{"<|python_tag|>", "<|python_start|>", "<|python_end|>", "<|eom|>", "<|eom_id|>"}

// bare reads calls that have no marks of their own, as Llama's models write them: an answer that
// begins with an object with a name and parameters is a call, and so is one behind it.
//
//	{"name": "f", "parameters": {}}
type bare struct {
	lead strings.Builder // white space and what else stands between calls
	call *object
	no   bool // the answer is content
}

func newBare(*Syntax) machine { return &bare{} }

func (m *bare) text(r *Reader, text string) {
	for text != "" {
		text = m.step(r, text)
	}
}

func (m *bare) step(r *Reader, text string) (rest string) {
	switch {
	case m.no || !r.o.Tools:
		r.content(text)
		return ""
	case m.call != nil:
		return m.object(r, text)
	case isWhite(text[0]), r.calls > 0 && (text[0] == ';' || text[0] == ','):
		m.lead.WriteString(text[:1])
		return text[1:]
	case text[0] == '{':
		m.call = &object{}
	default:
		m.give(r)
	}
	return text
}

func (m *bare) object(r *Reader, text string) (rest string) {
	rest = m.call.push(r, text)
	if !m.call.done() {
		return rest
	}
	if m.call.opened {
		r.closed()
		m.call = nil
		m.lead.Reset()
		return rest
	}
	m.give(r)
	return rest
}

// give makes what was read content, and all that follows.
func (m *bare) give(r *Reader) {
	text := m.lead.String()
	if m.call != nil {
		text += m.call.raw.String()
	}
	m.no, m.call = true, nil
	m.lead.Reset()
	r.content(text)
}

func (m *bare) reading() (is bool, json *value) { return m.call != nil, m.call.json() }

// isBare reports whether calls have no marks, so that what begins one may be text.
func isBare(m machine) bool {
	_, is := m.(*bare)
	return is
}

// mark takes a mark: it says nothing that the text does not.
func (m *bare) mark(*Reader, string) {}

func (m *bare) end(r *Reader) {
	if m.call != nil && m.call.opened {
		r.closed()
		return
	}
	if m.call != nil || r.calls == 0 {
		m.give(r)
	}
}

func bareForm(_ *Syntax, name string) (before, after string) {
	return `{"name": ` + strconv.Quote(name) + `, "parameters": `, "}"
}
