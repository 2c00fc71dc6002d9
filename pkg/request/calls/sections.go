package calls

import (
	"regexp"
	"strings"
)

// sectionMarks are those that stand around calls, and around their parts.
type sectionMarks struct{ open, callOpen, split, callClose, close string }

var (
	deepseekMarks = sectionMarks{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}
	kimiMarks     = sectionMarks{"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"}
)

func (m sectionMarks) all() []string {
	return []string{m.open, m.callOpen, m.split, m.callClose, m.close}
}

func (m sectionMarks) begin(*Syntax) machine { return &sections{marks: m} }

// sections reads calls each part of which has marks, as DeepSeek's and Moonshot's models write:
//
//	<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//	…<｜tool▁call▁begin｜>function<｜tool▁sep｜>f⏎```json⏎{}⏎```<｜tool▁call▁end｜>…
//	…<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>…
type sections struct {
	marks  sectionMarks
	in     sectionState
	inside bool            // of all calls
	lead   strings.Builder // what was read of a call and is not told
	head   strings.Builder // before the mark that splits a call
	pre    strings.Builder // behind it, before the arguments
	args   value
}

type sectionState byte

const (
	noCall sectionState = iota
	inHead
	beforeArgs
	inArguments
	behindArgs
	moreBehind // something that is not to be there
	noneAtAll  // it is content up to its end
)

func (m *sections) text(r *Reader, text string) {
	switch m.in {
	case noCall:
		if m.inside {
			text = strings.TrimLeft(text, white)
		}
		if text != "" {
			m.inside = false
			r.content(text)
		}
	case inHead:
		m.head.WriteString(text)
		m.lead.WriteString(text)
	case beforeArgs:
		m.before(r, text)
	case inArguments:
		m.arguments(r, text)
	case behindArgs:
		if text = strings.TrimLeft(text, white+"`"); text != "" {
			m.in = moreBehind
			r.content(text)
		}
	case moreBehind, noneAtAll:
		r.content(text)
	}
}

// before takes what stands between the mark and the arguments.
func (m *sections) before(r *Reader, text string) {
	at := strings.IndexByte(text, '{')
	if at < 0 {
		m.pre.WriteString(text)
		m.lead.WriteString(text)
		return
	}
	m.pre.WriteString(text[:at])
	name, id := m.callee()
	if !isName(name) {
		m.fail(r)
		r.content(text)
		return
	}
	r.open(name, id)
	m.in, m.args = inArguments, value{}
	m.arguments(r, text[at:])
}

// callee returns the name that is called, and the id that the model gave the call.
func (m *sections) callee() (name, id string) {
	head, pre := strings.TrimSpace(m.head.String()), strings.TrimSpace(m.pre.String())
	first, _, _ := strings.Cut(pre, "\n")
	if first = strings.TrimSpace(strings.TrimSuffix(first, "```json")); first != "" {
		return first, "" // head is its type
	}
	if of := numbered.FindStringSubmatch(head); of != nil {
		return of[1], head
	}
	return head, ""
}

// numbered are names that are ids, too.
var numbered = regexp.MustCompile(`^functions\.(.+):\d+$`)

func (m *sections) arguments(r *Reader, text string) {
	n, ended := m.args.push(text)
	r.arguments(text[:n])
	if ended {
		m.in = behindArgs
		if n < len(text) {
			m.text(r, text[n:])
		}
	}
}

// fail makes what was read of a call content.
func (m *sections) fail(r *Reader) {
	m.in = noneAtAll
	r.content(m.lead.String())
}

func (m *sections) mark(r *Reader, mark string) {
	switch {
	case m.in == noneAtAll:
		r.content(mark)
		if mark == m.marks.callClose || mark == m.marks.close {
			m.in, m.inside = noCall, mark != m.marks.close
		}
	case m.in == noCall && mark == m.marks.open:
		m.inside = true
	case m.in == noCall && mark == m.marks.close:
		m.inside = false
	case m.in == noCall && mark == m.marks.callOpen:
		m.in = inHead
		m.lead.Reset()
		m.lead.WriteString(mark)
		m.head.Reset()
		m.pre.Reset()
	case m.in == inHead && mark == m.marks.split:
		m.in = beforeArgs
		m.lead.WriteString(mark)
	case m.in >= inArguments && mark == m.marks.callClose:
		m.in = noCall
		r.closed()
	case m.in == inHead, m.in == beforeArgs:
		m.fail(r)
		m.mark(r, mark)
	default:
		m.text(r, mark)
	}
}

func (m *sections) reading() (is bool, json *value) {
	if m.in == inArguments {
		return true, &m.args
	}
	return m.in != noCall || m.inside, nil
}

func (m *sections) end(r *Reader) {
	switch m.in {
	case inHead, beforeArgs:
		m.fail(r)
	case inArguments, behindArgs, moreBehind:
		r.closed()
	}
	m.in = noCall
}

func deepseekForm(s *Syntax, name string) (before, after string) {
	m := deepseekMarks
	before, after = s.token(m.open)+s.token(m.callOpen), s.token(m.callClose)+s.token(m.close)
	if s.fenced {
		return before + "function" + s.token(m.split) + name + "\n```json\n", "\n```" + after
	}
	return before + name + s.token(m.split), after
}

func kimiForm(s *Syntax, name string) (before, after string) {
	m := kimiMarks
	return s.token(m.open) + s.token(m.callOpen) + "functions." + name + ":0" + s.token(m.split), s.token(m.callClose) + s.token(m.close)
}
