package jinja

import (
	"errors"
	"fmt"
	"maps"
	"unicode/utf8"
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name string
	body []statement
}

// Parse reads a template. Errors are *Error and call it by name.
func Parse(name, source string) (*Template, error) {
	fail := func(line int, err error) (*Template, error) { return nil, &Error{name, line, err} }
	if len(source) > maxSource {
		return fail(1, fmt.Errorf("it has %d bytes, above the limit of %d", len(source), maxSource))
	}
	if !utf8.ValidString(source) {
		return fail(1, errors.New("it is not UTF-8"))
	}
	tokens, line, err := lex(source)
	if err != nil {
		return fail(line, err)
	}
	p := &parser{tokens: tokens}
	body, err := p.body()
	if err != nil {
		return fail(p.line(), err)
	}
	return &Template{name, body}, nil
}

// line is that of the last token that was passed.
func (p *parser) line() int { return p.tokens[max(p.at-1, 0)].line }

// Render runs the template. variables are what it sees, made by the constructors of this package;
// nil, bool, int and float64 stand for themselves. input is how many bytes of
// what came from outside are among them: a run may take longer for more.
func (t *Template) Render(variables map[string]any, input int) (Text, error) {
	return t.within(newBudget(input), variables)
}

func (t *Template) within(b budget, variables map[string]any) (Text, error) {
	r := &run{budget: b}
	top := &scope{given: globals()}
	maps.Copy(top.given, variables)
	var w textWriter
	err := r.body(t.body, &scope{parent: top}, &w)
	if err == nil {
		return w.text(), nil
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Line: 1, Err: err}
	}
	e.Name = t.name
	return Text{}, e
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

func (s *scope) set(name string, v value) error {
	for i := range s.own {
		if s.own[i].name == name {
			s.own[i].value = v
			return nil
		}
	}
	if len(s.own) == maxVariables {
		return errVariables
	}
	s.own = append(s.own, binding{name, v})
	return nil
}

// get is the value of a variable; passed is how many others were looked at.
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

// run is one rendering of a template.
type run struct{ budget }

// body runs statements one after the other.
func (r *run) body(body []statement, s *scope, w *textWriter) error {
	for _, b := range body {
		if err := r.step(1); err != nil {
			return err
		}
		if err := b.exec(r, s, w); err != nil {
			return err
		}
	}
	return nil
}

// capture runs statements in a scope of their own and returns what they write.
func (r *run) capture(body []statement, s *scope) (Text, error) {
	var w textWriter
	err := r.body(body, &scope{parent: s}, &w)
	return w.text(), err
}

// putValue writes a value as a string.
func (r *run) putValue(w *textWriter, v value) error {
	t, err := r.str(v)
	if err != nil {
		return err
	}
	return r.put(w, t)
}

// put writes a text.
func (r *run) put(w *textWriter, t Text) error {
	if err := r.make(t.size()); err != nil {
		return err
	}
	w.add(t)
	return nil
}

// at gives an error the line where it happened, if it has none yet.
func at(line int, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &Error{Line: line, Err: err}
}
