package jinja

import (
	"maps"
	"unicode/utf8"
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name string
	body []statement
}

// Parse reads a template. Errors are *Error and call it by name.
func Parse(name, source string) (t *Template, err error) {
	line := func() int { return 1 }
	defer func() {
		if why := caught(recover()); why != nil {
			t, err = nil, &Error{name, line(), why}
		}
	}()
	if len(source) > maxSource {
		panic(failf("it has %d bytes, above the limit of %d", len(source), maxSource))
	}
	if !utf8.ValidString(source) {
		panic(failf("it is not UTF-8"))
	}
	l := newLexer(source)
	line = func() int { return l.line }
	p := &parser{tokens: l.all()}
	line = p.line
	return &Template{name, p.body()}, nil
}

// line is that of the last token that was passed.
func (p *parser) line() int { return p.tokens[max(p.at-1, 0)].line }

// Render runs the template. variables are what it sees, made by the constructors of this package;
// nil, bool, int and float64 stand for themselves. input is how many bytes of
// what came from outside are among them: a run may take longer for more.
func (t *Template) Render(variables map[string]any, input int) (Text, error) {
	return t.within(newBudget(input), variables)
}

func (t *Template) within(b budget, variables map[string]any) (text Text, err error) {
	r := &run{budget: b, line: 1}
	defer func() {
		if why := caught(recover()); why != nil {
			text, err = Text{}, &Error{t.name, r.line, why}
		}
	}()
	top := &scope{given: globals()}
	maps.Copy(top.given, variables)
	var w textWriter
	r.body(t.body, &scope{parent: top}, &w)
	return w.text(), nil
}

// scope is the variables of a part of a template, inside of its parent.
type scope struct {
	parent *scope
	own    []binding        // few, so looking through them is fast
	given  map[string]value // the outermost one's, which a template cannot set
}

type binding struct {
	name  string
	value value
}

func (s *scope) set(name string, v value) {
	for i := range s.own {
		if s.own[i].name == name {
			s.own[i].value = v
			return
		}
	}
	if len(s.own) == maxVariables {
		panic(failure{errVariables})
	}
	s.own = append(s.own, binding{name, v})
}

// get returns the value of a variable; passed is how many others were looked at.
func (s *scope) get(name string) (v value, passed int) {
	for ; s != nil; s = s.parent {
		for i := range s.own {
			if s.own[i].name == name {
				return s.own[i].value, passed + i
			}
		}
		passed += 1 + len(s.own)
		if v, ok := s.given[name]; ok {
			return v, passed
		}
	}
	return undefined{name: name}, passed
}

type run struct {
	budget
	line int   // of the tag that runs
	jump *jump // out of the bodies up to a loop's; nil: there is none
}

// body runs statements one after the other, up to a jump.
func (r *run) body(body []statement, s *scope, w *textWriter) {
	line := r.line
	for i := 0; i < len(body) && r.jump == nil; i++ {
		r.step(1)
		body[i].exec(r, s, w)
	}
	r.line = line
}

// capture runs statements in a scope of their own and returns what they write.
func (r *run) capture(body []statement, s *scope) Text {
	var w textWriter
	r.body(body, &scope{parent: s}, &w)
	return w.text()
}

func (r *run) putValue(w *textWriter, v value) {
	r.put(w, r.str(v))
}

func (r *run) put(w *textWriter, t Text) {
	r.make(t.size())
	w.add(t)
}
