package jinja

import (
	"errors"
	"fmt"
	"slices"
)

// target parses what can be assigned to: a name, a namespace's attribute, or a
// tuple of them. until is the word that ends it, if any.
func (p *parser) target(until string) (target, error) {
	e, err := p.tuple(tupleRules{targets: true, until: until})
	if err != nil {
		return nil, err
	}
	return asTarget(e)
}

func asTarget(e expression) (target, error) {
	switch e := e.(type) {
	case variable:
		return e, nil
	case attributeOf:
		if of, ok := e.of.(variable); ok {
			return namespaceTarget{string(of), e.name}, nil
		}
	case listOf:
		if e.kind != tuple {
			break
		}
		var out tupleTarget
		for _, item := range e.items {
			t, err := asTarget(item)
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		}
		return out, nil
	}
	return nil, errors.New("this cannot be assigned to")
}

// macro parses macro name(parameters) … endmacro.
func (p *parser) macro(line int) (statement, error) {
	called, err := p.word()
	if err != nil {
		return nil, err
	}
	m := &macro{line: line, name: called}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	m.body, err = p.apart("endmacro")
	return m, err
}

// apart parses a body from which a loop around it cannot be left.
func (p *parser) apart(until string) ([]statement, error) {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return p.closed(until)
}

func (p *parser) signature(m *macro) error {
	if err := p.expect(operatorToken, "("); err != nil {
		return err
	}
	for !p.now().is(operatorToken, ")") {
		if len(m.params) == maxParameters {
			return fmt.Errorf("macro %q has more than %d parameters", m.name, maxParameters)
		}
		if len(m.params) > 0 {
			if err := p.expect(operatorToken, ","); err != nil {
				return err
			}
		}
		param, err := p.parameter(len(m.params) > 0 && m.params[len(m.params)-1].preset != nil)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.params, func(other parameter) bool { return other.name == param.name }) {
			return fmt.Errorf("parameter %q is there twice", param.name)
		}
		m.params = append(m.params, param)
	}
	p.next()
	return nil
}

// parameter parses name or name=default; after one with a default, all have one.
func (p *parser) parameter(withDefault bool) (parameter, error) {
	var param parameter
	var err error
	if param.name, err = p.word(); err != nil {
		return param, err
	}
	if p.accept(operatorToken, "=") {
		param.preset, err = p.expression()
	} else if withDefault {
		err = fmt.Errorf("parameter %q has no default, but one before it has", param.name)
	}
	return param, err
}

// callBlock parses call(parameters) macro(…) … endcall.
func (p *parser) callBlock(line int) (statement, error) {
	s := callBlock{line: line, caller: &macro{line: line, name: "caller"}}
	if p.now().is(operatorToken, "(") {
		if err := p.signature(s.caller); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := e.(call)
	if !ok {
		return nil, errors.New("tag \"call\" calls nothing")
	}
	s.call = c
	s.caller.body, err = p.apart("endcall")
	return s, err
}

// filterBlock parses filter name … endfilter.
func (p *parser) filterBlock(line int) (statement, error) {
	value, err := p.oneFilter(captured{})
	if err == nil {
		value, err = p.filters(value)
	}
	if err != nil {
		return nil, err
	}
	body, err := p.closed("endfilter")
	return filterBlock{line, value, body}, err
}

// with parses with a = 1, b = 2 … endwith.
func (p *parser) with(line int) (statement, error) {
	s := with{line: line}
	for p.now().kind != blockEndToken {
		if len(s.targets) > 0 {
			if err := p.expect(operatorToken, ","); err != nil {
				return nil, err
			}
		}
		e, err := p.primary()
		if err != nil {
			return nil, err
		}
		t, err := asTarget(e)
		if err == nil {
			err = p.expect(operatorToken, "=")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, t), append(s.values, value)
	}
	var err error
	s.body, err = p.closed("endwith")
	return s, err
}
