package jinja

import "strconv"

// postfix parses attributes, subscripts and calls after a value.
func (p *parser) postfix(e expression) expression {
	for ; ; p.term() {
		switch t := p.now(); {
		case t.is(operatorToken, "."):
			e = p.attribute(e)
		case t.is(operatorToken, "["):
			e = p.subscript(e)
		case t.is(operatorToken, "("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) attribute(of expression) expression {
	p.next()
	if t := p.now(); t.kind == integerToken {
		p.next()
		n, err := strconv.Atoi(t.value)
		if err != nil {
			panic(failure{err})
		}
		return itemOf{of, constant{n}}
	}
	return attributeOf{of, p.word()}
}

func (p *parser) subscript(of expression) expression {
	p.next()
	if first := p.now(); !first.is(operatorToken, ":") {
		e := p.expression()
		if !p.now().is(operatorToken, ":") {
			p.expect(operatorToken, "]")
			return itemOf{of, e}
		}
		return p.slice(of, e)
	}
	return p.slice(of, nil)
}

// slice parses what follows the start of a slice.
func (p *parser) slice(of, start expression) expression {
	s := sliceOf{of: of, start: start}
	for _, part := range []*expression{&s.stop, &s.step} {
		if !p.accept(operatorToken, ":") {
			break
		}
		if t := p.now(); t.is(operatorToken, ":") || t.is(operatorToken, "]") {
			continue
		}
		*part = p.expression()
	}
	p.expect(operatorToken, "]")
	return s
}

func (p *parser) call(of expression) expression { return call{of, p.arguments()} }

// arguments parses (a, b, c=d). Lists and dictionaries of arguments (*a, **b) are
// not there: no chat template needs them.
func (p *parser) arguments() arguments {
	var a arguments
	p.expect(operatorToken, "(")
	for !p.now().is(operatorToken, ")") {
		if t := p.now(); t.is(operatorToken, "*") || t.is(operatorToken, "**") {
			panic(failf("arguments with %s are not there", t.value))
		}
		p.argument(&a)
		if !p.accept(operatorToken, ",") {
			break
		}
	}
	p.expect(operatorToken, ")")
	return a
}

func (p *parser) argument(a *arguments) {
	key := ""
	if p.now().kind == nameToken && p.ahead().is(operatorToken, "=") {
		key = p.next().value
		if p.next(); len(a.names) == maxParameters {
			panic(failf("a call has more than %d arguments with names", maxParameters))
		}
	} else if len(a.names) > 0 {
		panic(failf("an argument without a name follows %s=", a.names[len(a.names)-1]))
	}
	e := p.expression()
	if key == "" {
		a.values = append(a.values, e)
		return
	}
	a.names, a.named = append(a.names, key), append(a.named, e)
}

// filters parses filters, tests and calls after a value.
func (p *parser) filters(e expression) expression {
	for ; ; p.term() {
		switch t := p.now(); {
		case t.is(operatorToken, "|"):
			p.next()
			e = p.oneFilter(e)
		case t.is(nameToken, "is"):
			e = p.test(e)
		case t.is(operatorToken, "("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) oneFilter(of expression) expression {
	f := filtered{of: of, name: p.word()}
	if p.now().is(operatorToken, "(") {
		f.args = p.arguments()
	}
	return f
}

// test parses is not name(arguments); one argument may go without parentheses.
func (p *parser) test(of expression) expression {
	p.next()
	not := p.accept(nameToken, "not")
	t := tested{of: of, name: p.word()}
	switch {
	case p.now().is(operatorToken, "("):
		t.args = p.arguments()
	case p.testHasArgument():
		t.args.values = []expression{p.postfix(p.primary())}
	}
	if not {
		return negation{t}
	}
	return t
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
