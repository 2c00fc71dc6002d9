package jinja

import "slices"

// target parses what can be assigned to: a name, a namespace's attribute, or a
// tuple of them. until is the word that ends it, if any.
func (p *parser) target(until string) target {
	return asTarget(p.tuple(tupleRules{targets: true, until: until}))
}

func asTarget(e expression) target {
	switch e := e.(type) {
	case variable:
		return e
	case attributeOf:
		if of, ok := e.of.(variable); ok {
			return namespaceTarget{string(of), e.name}
		}
	case listOf:
		if e.kind != tuple {
			break
		}
		var out tupleTarget
		for _, item := range e.items {
			out = append(out, asTarget(item))
		}
		return out
	}
	panic(failf("this cannot be assigned to"))
}

// macro parses macro name(parameters) … endmacro.
func (p *parser) macro(line int) statement {
	m := &macro{line: line, name: p.word()}
	p.signature(m)
	m.body = p.apart("endmacro")
	return m
}

// apart parses a body from which a loop around it cannot be left.
func (p *parser) apart(until string) []statement {
	loops := p.loops
	p.loops = 0
	body := p.closed(until)
	p.loops = loops
	return body
}

func (p *parser) signature(m *macro) {
	p.expect(operatorToken, "(")
	for !p.now().is(operatorToken, ")") {
		if len(m.params) == maxParameters {
			panic(failf("macro %q has more than %d parameters", m.name, maxParameters))
		}
		if len(m.params) > 0 {
			p.expect(operatorToken, ",")
		}
		param := p.parameter(len(m.params) > 0 && m.params[len(m.params)-1].preset != nil)
		if slices.ContainsFunc(m.params, func(other parameter) bool { return other.name == param.name }) {
			panic(failf("parameter %q is there twice", param.name))
		}
		m.params = append(m.params, param)
	}
	p.next()
}

// parameter parses name or name=default; after one with a default, all have one.
func (p *parser) parameter(withDefault bool) parameter {
	param := parameter{name: p.word()}
	if p.accept(operatorToken, "=") {
		param.preset = p.expression()
	} else if withDefault {
		panic(failf("parameter %q has no default, but one before it has", param.name))
	}
	return param
}

// callBlock parses call(parameters) macro(…) … endcall.
func (p *parser) callBlock(line int) statement {
	s := callBlock{line: line, caller: &macro{line: line, name: "caller"}}
	if p.now().is(operatorToken, "(") {
		p.signature(s.caller)
	}
	var ok bool
	if s.call, ok = p.expression().(call); !ok {
		panic(failf("tag \"call\" calls nothing"))
	}
	s.caller.body = p.apart("endcall")
	return s
}

// filterBlock parses filter name … endfilter.
func (p *parser) filterBlock(line int) statement {
	value := p.filters(p.oneFilter(captured{}))
	return filterBlock{line, value, p.closed("endfilter")}
}

// with parses with a = 1, b = 2 … endwith.
func (p *parser) with(line int) statement {
	s := with{line: line}
	for p.now().kind != blockEndToken {
		if len(s.targets) > 0 {
			p.expect(operatorToken, ",")
		}
		s.targets = append(s.targets, asTarget(p.primary()))
		p.expect(operatorToken, "=")
		s.values = append(s.values, p.expression())
	}
	s.body = p.closed("endwith")
	return s
}
