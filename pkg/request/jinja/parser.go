package jinja

import "slices"

// parser turns tokens into statements as jinja2's parser.py does.
type parser struct {
	tokens []token
	at     int
	depth  int // of tags and expressions within each other
	terms  int // of the current tag
	loops  int // around the current place, within the current macro
}

func (p *parser) now() token { return p.tokens[p.at] }

func (p *parser) ahead() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

// next passes a token; the last one stays.
func (p *parser) next() token {
	t := p.now()
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

// accept passes the token if it is this one.
func (p *parser) accept(k kind, value string) bool {
	if !p.now().is(k, value) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(k kind, value string) {
	if !p.accept(k, value) {
		panic(failf("unexpected %v where %v should be", p.now(), token{kind: k, value: value}))
	}
}

func (p *parser) word() string {
	t := p.now()
	if t.kind != nameToken {
		panic(failf("unexpected %v where a name should be", t))
	}
	p.next()
	return t.value
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		panic(failf("tags or expressions are nested more than %d deep", maxNesting))
	}
}

func (p *parser) leave() { p.depth-- }

// term counts what is evaluated within what follows it.
func (p *parser) term() {
	if p.terms++; p.terms > maxTerms {
		panic(failf("a tag has more than %d terms: operators, filters, tests, attributes, subscripts and calls", maxTerms))
	}
}

// body parses statements up to a tag with one of these names, which is left. At
// the end of the template no names are wanted.
func (p *parser) body(until ...string) []statement {
	p.enter()
	defer p.leave()
	var out []statement
	for {
		p.terms = 0
		switch t := p.next(); t.kind {
		case endToken:
			if len(until) > 0 {
				panic(failf("the template ends where tag %v should be", until))
			}
			return out
		case dataToken:
			out = append(out, write{Inside(t.value)})
		case variableBeginToken:
			out = append(out, output{t.line, []expression{p.tuple(tupleRules{})}})
			p.expect(variableEndToken, "")
		case blockBeginToken:
			if p.now().kind == nameToken && slices.Contains(until, p.now().value) {
				return out
			}
			out = append(out, p.statement())
		}
	}
}

// block returns the body of a tag: its end, statements, and the tag that ends them,
// whose name is returned.
func (p *parser) block(until ...string) ([]statement, string) {
	p.accept(operatorToken, ":")
	p.expect(blockEndToken, "")
	out := p.body(until...)
	return out, p.next().value
}

// closed returns a body that one tag ends, with the end of that tag.
func (p *parser) closed(until string) []statement {
	out, _ := p.block(until)
	p.expect(blockEndToken, "")
	return out
}

// statement parses a tag, up to the end of its last part.
func (p *parser) statement() statement {
	line := p.now().line
	tag := p.word()
	switch tag {
	case "for":
		return p.forLoop(line)
	case "if":
		return p.ifElse(line)
	case "set":
		return p.set(line)
	case "macro":
		return p.macro(line)
	case "call":
		return p.callBlock(line)
	case "filter":
		return p.filterBlock(line)
	case "with":
		return p.with(line)
	case "generation": // marks what a model wrote; a scope of its own
		return with{line: line, body: p.closed("endgeneration")}
	case "print":
		return p.print(line)
	case "break", "continue":
		if p.loops == 0 {
			panic(failf("%s is outside of a loop", tag))
		}
		p.expect(blockEndToken, "")
		return jump{tag == "break"}
	case "include", "import", "from", "extends", "block":
		panic(failf("tag %q is not there: a chat template is one file", tag))
	}
	panic(failf("unknown tag %q", tag))
}

func (p *parser) print(line int) statement {
	s := output{line: line}
	for p.now().kind != blockEndToken {
		if len(s.values) > 0 {
			p.expect(operatorToken, ",")
		}
		s.values = append(s.values, p.expression())
	}
	p.expect(blockEndToken, "")
	return s
}

// forLoop parses for … in … if … recursive, with else.
func (p *parser) forLoop(line int) statement {
	s := forLoop{line: line}
	s.target = p.target("in")
	p.expect(nameToken, "in")
	s.over = p.tuple(tupleRules{noCondition: true, until: "recursive"})
	if p.accept(nameToken, "if") {
		s.where = p.expression()
	}
	s.recursive = p.accept(nameToken, "recursive")
	p.loops++
	var tag string
	s.body, tag = p.block("endfor", "else")
	p.loops--
	if tag == "else" {
		s.empty = p.closed("endfor")
		return s
	}
	p.expect(blockEndToken, "")
	return s
}

func (p *parser) ifElse(line int) statement {
	s := ifElse{line: line}
	for tag := "if"; tag != "else"; {
		test := p.tuple(tupleRules{noCondition: true})
		body, next := p.block("elif", "else", "endif")
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		if tag = next; tag == "endif" {
			p.expect(blockEndToken, "")
			return s
		}
	}
	s.otherwise = p.closed("endif")
	return s
}

// set parses set … = …, and set … with a body.
func (p *parser) set(line int) statement {
	target := p.target("")
	if p.accept(operatorToken, "=") {
		value := p.tuple(tupleRules{})
		p.expect(blockEndToken, "")
		return set{line, target, value}
	}
	s := setBlock{line: line, target: target}
	if p.now().is(operatorToken, "|") {
		s.value = p.filters(captured{})
	}
	s.body = p.closed("endset")
	return s
}
