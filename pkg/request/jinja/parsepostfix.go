package jinja

import (
	"fmt"
	"strconv"
)

// postfix parses attributes, subscripts and calls after a value.
func (p *parser) postfix(e expression) (expression, error) {
	var err error
	for ; err == nil; err = firstOf(err, p.term()) {
		switch t := p.now(); {
		case t.is(operatorToken, "."):
			e, err = p.attribute(e)
		case t.is(operatorToken, "["):
			e, err = p.subscript(e)
		case t.is(operatorToken, "("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return e, err
}

func (p *parser) attribute(of expression) (expression, error) {
	p.next()
	if t := p.now(); t.kind == integerToken {
		p.next()
		n, err := strconv.Atoi(t.value)
		return itemOf{of, constant{n}}, err
	}
	called, err := p.word()
	return attributeOf{of, called}, err
}

func (p *parser) subscript(of expression) (expression, error) {
	p.next()
	if first := p.now(); !first.is(operatorToken, ":") {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		if !p.now().is(operatorToken, ":") {
			return itemOf{of, e}, p.expect(operatorToken, "]")
		}
		return p.slice(of, e)
	}
	return p.slice(of, nil)
}

// slice parses what follows the start of a slice.
func (p *parser) slice(of, start expression) (expression, error) {
	s := sliceOf{of: of, start: start}
	for _, part := range []*expression{&s.stop, &s.step} {
		if !p.accept(operatorToken, ":") {
			break
		}
		if t := p.now(); t.is(operatorToken, ":") || t.is(operatorToken, "]") {
			continue
		}
		var err error
		if *part, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return s, p.expect(operatorToken, "]")
}

func (p *parser) call(of expression) (expression, error) {
	a, err := p.arguments()
	return call{of, a}, err
}

// arguments parses (a, b, c=d). Lists and dictionaries of arguments (*a, **b) are
// not there: no chat template needs them.
func (p *parser) arguments() (arguments, error) {
	var a arguments
	if err := p.expect(operatorToken, "("); err != nil {
		return a, err
	}
	for !p.now().is(operatorToken, ")") {
		if t := p.now(); t.is(operatorToken, "*") || t.is(operatorToken, "**") {
			return a, fmt.Errorf("arguments with %s are not there", t.value)
		}
		if err := p.argument(&a); err != nil {
			return a, err
		}
		if !p.accept(operatorToken, ",") {
			break
		}
	}
	return a, p.expect(operatorToken, ")")
}

func (p *parser) argument(a *arguments) error {
	key := ""
	if p.now().kind == nameToken && p.ahead().is(operatorToken, "=") {
		key = p.next().value
		if p.next(); len(a.names) == maxParameters {
			return fmt.Errorf("a call has more than %d arguments with names", maxParameters)
		}
	} else if len(a.names) > 0 {
		return fmt.Errorf("an argument without a name follows %s=", a.names[len(a.names)-1])
	}
	e, err := p.expression()
	if err != nil {
		return err
	}
	if key == "" {
		a.values = append(a.values, e)
		return nil
	}
	a.names, a.named = append(a.names, key), append(a.named, e)
	return nil
}

// filters parses filters, tests and calls after a value.
func (p *parser) filters(e expression) (expression, error) {
	var err error
	for ; err == nil; err = firstOf(err, p.term()) {
		switch t := p.now(); {
		case t.is(operatorToken, "|"):
			p.next()
			e, err = p.oneFilter(e)
		case t.is(nameToken, "is"):
			e, err = p.test(e)
		case t.is(operatorToken, "("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return e, err
}

func (p *parser) oneFilter(of expression) (expression, error) {
	called, err := p.word()
	if err != nil {
		return nil, err
	}
	f := filtered{of: of, name: called}
	if p.now().is(operatorToken, "(") {
		f.args, err = p.arguments()
	}
	return f, err
}

// test parses is not name(arguments); one argument may go without parentheses.
func (p *parser) test(of expression) (expression, error) {
	p.next()
	not := p.accept(nameToken, "not")
	called, err := p.word()
	if err != nil {
		return nil, err
	}
	t := tested{of: of, name: called}
	switch {
	case p.now().is(operatorToken, "("):
		t.args, err = p.arguments()
	case p.testHasArgument():
		var e expression
		if e, err = p.primary(); err == nil {
			e, err = p.postfix(e)
		}
		t.args.values = []expression{e}
	}
	if not {
		return negation{t}, err
	}
	return t, err
}

func (p *parser) testHasArgument() bool {
	switch t := p.now(); t.kind {
	case textToken, integerToken, floatToken:
		return true
	case nameToken:
		return t.value != "else" && t.value != "or" && t.value != "and" && t.value != "is"
	case operatorToken:
		return t.value == "[" || t.value == "{"
	}
	return false
}
