package calls

import (
	"regexp"
	"strings"
)

const (
	channelMark   = "<|channel|>"
	startMark     = "<|start|>"
	messageMark   = "<|message|>"
	endMark       = "<|end|>"
	callMark      = "<|call|>"
	returnMark    = "<|return|>"
	constrainMark = "<|constrain|>"
)

var channelMarks = []string{channelMark, startMark, messageMark, endMark, callMark, returnMark, constrainMark}

// channels reads messages with headers, as gpt-oss writes them. The prompt ends in the first header.
//
//	<|channel|>analysis<|message|>thoughts<|end|><|start|>assistant<|channel|>final<|message|>text
//	<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>
type channels struct {
	in     channelState
	header strings.Builder
	marked bool   // a mark has come
	some   bool   // arguments have come
	args   *value // those of an object
}

type channelState byte

const (
	inFirst channelState = iota // the header that the prompt has begun, or what is none
	inHeader
	inThoughts
	inText
	inCall
	behindCall
)

func newChannels(*Syntax) machine { return &channels{} }

func (m *channels) text(r *Reader, text string) {
	switch m.in {
	case inThoughts:
		r.thought(text)
	case inText, behindCall:
		r.content(text)
	case inCall:
		m.arguments(r, text)
	case inHeader:
		m.header.WriteString(text)
	case inFirst:
		m.header.WriteString(text)
		if h := strings.TrimLeft(m.header.String(), white); !mayBegin(h, "to=") { // no header: a model that knows no channels
			m.in = inText
			r.content(m.header.String())
			m.header.Reset()
		}
	}
}

// arguments tells those of a call, which end with their object. What is none goes on to the next mark.
func (m *channels) arguments(r *Reader, text string) {
	if begin := strings.TrimLeft(text, white); !m.some && begin != "" {
		m.some = true
		if begin[0] == '{' {
			m.args = &value{}
		}
	}
	n, ended := len(text), false
	if m.args != nil {
		n, ended = m.args.push(text)
	}
	r.arguments(text[:n])
	if ended {
		m.in, m.args = behindCall, nil
		m.text(r, text[n:])
	}
}

func (m *channels) reading() (is bool, json *value) { return m.marked, m.args }

// mayBegin reports whether a text begins like another one, as far as both go.
func mayBegin(text, like string) bool {
	n := min(len(text), len(like))
	return text[:n] == like[:n]
}

func (m *channels) mark(r *Reader, mark string) {
	m.marked = true
	switch mark {
	case startMark:
		m.close(r)
		m.in = inHeader
	case endMark, callMark, returnMark:
		m.close(r)
	case messageMark:
		m.open(r)
	default: // within a header
		if m.in != inFirst && m.in != inHeader {
			m.close(r)
		}
		m.in = inHeader
		m.header.WriteString(" " + mark + " ")
	}
}

var (
	recipient = regexp.MustCompile(`\bto=functions\.([^\s<]+)`)
	channelOf = regexp.MustCompile(`<\|channel\|>\s*(\w+)`)
)

// open begins the message of a header.
func (m *channels) open(r *Reader) {
	header := m.header.String()
	m.header.Reset()
	r.hush(true)
	if to := recipient.FindStringSubmatch(header); to != nil && r.o.Tools && isName(to[1]) {
		m.in, m.some, m.args = inCall, false, nil
		r.open(to[1], "")
		return
	}
	m.in = inText
	if of := channelOf.FindStringSubmatch(header); of != nil && of[1] == "analysis" {
		m.in = inThoughts
	}
}

// close ends the message.
func (m *channels) close(r *Reader) {
	if m.in == inCall || m.in == behindCall {
		if !m.some {
			r.arguments("{}")
		}
		r.closed()
	}
	m.header.Reset()
	m.in, m.args = inFirst, nil
	r.spaces.Reset()
}

func (m *channels) end(r *Reader) {
	if header := m.header.String(); m.in == inFirst && header != "" {
		r.content(header)
	}
	m.close(r)
}

func channelForm(s *Syntax, name string) (before, after string) {
	before = s.token(channelMark) + "commentary to=functions." + name + " "
	if s.has(constrainMark) {
		before += s.token(constrainMark)
	}
	return before + "json" + s.token(messageMark), "" // what ends a call ends the answer
}
