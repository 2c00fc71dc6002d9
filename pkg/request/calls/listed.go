package calls

import (
	"strconv"
	"strings"
)

// listID is what the newest of Mistral's models may write before [ARGS].
const listID = "[CALL_ID]"

// listed reads calls as Mistral's models write them: a list of objects behind a mark, or each
// with a mark of its own.
//
//	[TOOL_CALLS] [{"name": "f", "arguments": {}}, …]
//	[TOOL_CALLS]f[ARGS]{}
type listed struct {
	in    listState
	some  bool            // the list has had a call
	lead  strings.Builder // what was read and is not told, but for the object
	name  strings.Builder
	named bool // the name is whole
	call  *object
	args  value
}

type listState byte

const (
	outside  listState = iota
	listHead           // behind the mark
	inList             // between objects
	inObject           // of a list
	inName             // of a call with its own mark
	inArgs             // of such a call
	inAlone            // an object without a list
)

func newListed(*Syntax) machine { return &listed{} }

func (m *listed) text(r *Reader, text string) {
	for text != "" {
		text = m.step(r, text)
	}
}

// step takes some of a text in, and returns the rest.
func (m *listed) step(r *Reader, text string) (rest string) {
	switch m.in {
	case outside:
		r.content(text)
		return ""
	case inObject, inAlone:
		return m.object(r, text)
	case inName:
		return m.callee(text)
	case inArgs:
		return m.arguments(r, text)
	}
	return m.between(r, text)
}

// between takes what stands around objects.
func (m *listed) between(r *Reader, text string) (rest string) {
	c, behind := text[0], text[1:]
	switch {
	case isWhite(c):
	case m.in == listHead && c == '[', m.in == inList && c == ',':
		m.in = inList
	case m.in == inList && c == ']':
		m.in = outside
		m.lead.Reset()
		return behind
	case c == '{':
		m.call = &object{}
		if m.in == listHead {
			m.in = inAlone
		} else {
			m.in = inObject
		}
		return text
	case m.in == listHead:
		m.in, m.named = inName, false
		m.name.Reset()
		return text
	default:
		m.fail(r)
		return text
	}
	if !m.some {
		m.lead.WriteString(text[:1])
	}
	return behind
}

// object takes an object in.
func (m *listed) object(r *Reader, text string) (rest string) {
	rest = m.call.push(r, text)
	if !m.call.done() {
		return rest
	}
	if !m.call.opened {
		m.lead.WriteString(m.call.raw.String())
		m.fail(r)
		return rest
	}
	r.closed()
	m.some = true
	m.lead.Reset()
	if m.in == inAlone || m.call.state == failed {
		m.in = outside
	} else {
		m.in = inList
	}
	m.call = nil
	return rest
}

// callee takes the name of a call in, which ends where its arguments begin.
func (m *listed) callee(text string) (rest string) {
	at := strings.IndexByte(text, '{')
	if at < 0 {
		at = len(text)
	}
	if !m.named {
		m.name.WriteString(text[:at])
	}
	m.lead.WriteString(text[:at])
	if rest = text[at:]; rest != "" {
		m.in, m.args = inArgs, value{}
	}
	return rest
}

// arguments tells those of a call with its own mark.
func (m *listed) arguments(r *Reader, text string) (rest string) {
	if !m.args.begun {
		name := strings.TrimSpace(m.name.String())
		if !isName(name) {
			m.fail(r)
			return text
		}
		r.open(name, "")
		m.lead.Reset()
	}
	n, ended := m.args.push(text)
	r.arguments(text[:n])
	if ended {
		m.in = outside
		r.closed()
	}
	return text[n:]
}

// fail makes what was read content.
func (m *listed) fail(r *Reader) {
	lead := m.lead.String()
	m.lead.Reset()
	m.in, m.call = outside, nil
	r.content(lead)
}

func (m *listed) mark(r *Reader, mark string) {
	switch {
	case mark == listOpen && m.in != inObject && m.in != inAlone && m.in != inArgs:
		m.end(r)
		m.in, m.some = listHead, false
		m.lead.Reset()
		m.lead.WriteString(mark)
	case m.in == inName && (mark == listArgs || mark == listID):
		m.named = true
		m.lead.WriteString(mark)
	default:
		m.text(r, mark)
	}
}

func (m *listed) reading() (is bool, json *value) {
	if m.in == inArgs {
		return true, &m.args
	}
	return m.in != outside, m.call.json()
}

func (m *listed) end(r *Reader) {
	switch {
	case m.in == inArgs:
		r.closed()
	case m.call != nil && m.call.opened:
		r.closed()
	default:
		if m.call != nil {
			m.lead.WriteString(m.call.raw.String())
		}
		m.fail(r)
	}
	m.in, m.call = outside, nil
}

func listedForm(s *Syntax, name string) (before, after string) {
	if s.has(listArgs) {
		return s.token(listOpen) + name + s.token(listArgs), ""
	}
	return s.token(listOpen) + ` [{"name": ` + strconv.Quote(name) + `, "arguments": `, "}]"
}
