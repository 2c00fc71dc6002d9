package jinja

import (
	"fmt"
	"slices"
)

// parser turns tokens into statements as jinja2's parser.py does.
type parser struct {
	tokens []token
	at     int
	depth  int // of tags and expressions within each other
	terms  int // of the current tag
	loops  int // around the current place, within the current macro
}

func (p *parser) now() token { return p.tokens[p.at] }

// ahead is the token after the current one.
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

func (p *parser) expect(k kind, value string) error {
	if !p.accept(k, value) {
		return fmt.Errorf("unexpected %v where %v should be", p.now(), token{kind: k, value: value})
	}
	return nil
}

func (p *parser) word() (string, error) {
	t := p.now()
	if t.kind != nameToken {
		return "", fmt.Errorf("unexpected %v where a name should be", t)
	}
	p.next()
	return t.value, nil
}

// enter goes one deeper; the function that it returns goes back.
func (p *parser) enter() (func(), error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("tags or expressions are nested more than %d deep", maxNesting)
	}
	return func() { p.depth-- }, nil
}

// term counts what is evaluated within what follows it.
func (p *parser) term() error {
	if p.terms++; p.terms > maxTerms {
		return fmt.Errorf("a tag has more than %d terms: operators, filters, tests, attributes, subscripts and calls", maxTerms)
	}
	return nil
}

// body parses statements up to a tag with one of these names, which is left. At
// the end of the template no names are wanted.
func (p *parser) body(until ...string) ([]statement, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []statement
	for {
		p.terms = 0
		switch t := p.next(); t.kind {
		case endToken:
			if len(until) > 0 {
				return nil, fmt.Errorf("the template ends where tag %v should be", until)
			}
			return out, nil
		case dataToken:
			out = append(out, write{Inside(t.value)})
		case variableBeginToken:
			s, err := p.variableTag(t.line)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		case blockBeginToken:
			if p.now().kind == nameToken && slices.Contains(until, p.now().value) {
				return out, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
}

// block is the body of a tag: its end, statements, and the tag that ends them,
// whose name is returned.
func (p *parser) block(until ...string) ([]statement, string, error) {
	p.accept(operatorToken, ":")
	if err := p.expect(blockEndToken, ""); err != nil {
		return nil, "", err
	}
	out, err := p.body(until...)
	if err != nil {
		return nil, "", err
	}
	return out, p.next().value, nil
}

// closed is a body that one tag ends, with the end of that tag.
func (p *parser) closed(until string) ([]statement, error) {
	out, _, err := p.block(until)
	if err != nil {
		return nil, err
	}
	return out, p.expect(blockEndToken, "")
}

func (p *parser) variableTag(line int) (statement, error) {
	e, err := p.tuple(tupleRules{})
	if err != nil {
		return nil, err
	}
	return output{line, []expression{e}}, p.expect(variableEndToken, "")
}

// statement parses a tag, up to the end of its last part.
func (p *parser) statement() (statement, error) {
	line := p.now().line
	tag, err := p.word()
	if err != nil {
		return nil, err
	}
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
		body, err := p.closed("endgeneration")
		return with{line: line, body: body}, err
	case "print":
		return p.print(line)
	case "break", "continue":
		if p.loops == 0 {
			return nil, fmt.Errorf("%s is outside of a loop", tag)
		}
		return jump{tag == "break"}, p.expect(blockEndToken, "")
	case "include", "import", "from", "extends", "block":
		return nil, fmt.Errorf("tag %q is not there: a chat template is one file", tag)
	}
	return nil, fmt.Errorf("unknown tag %q", tag)
}

func (p *parser) print(line int) (statement, error) {
	s := output{line: line}
	for p.now().kind != blockEndToken {
		if len(s.values) > 0 {
			if err := p.expect(operatorToken, ","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.values = append(s.values, e)
	}
	return s, p.expect(blockEndToken, "")
}

// forLoop parses for … in … if … recursive, with else.
func (p *parser) forLoop(line int) (statement, error) {
	s := forLoop{line: line}
	var err error
	if s.target, err = p.target("in"); err != nil {
		return nil, err
	}
	if err := p.expect(nameToken, "in"); err != nil {
		return nil, err
	}
	if s.over, err = p.tuple(tupleRules{noCondition: true, until: "recursive"}); err != nil {
		return nil, err
	}
	if p.accept(nameToken, "if") {
		if s.where, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.accept(nameToken, "recursive")
	p.loops++
	body, tag, err := p.block("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	if s.body = body; tag == "else" {
		s.empty, err = p.closed("endfor")
		return s, err
	}
	return s, p.expect(blockEndToken, "")
}

func (p *parser) ifElse(line int) (statement, error) {
	s := ifElse{line: line}
	for tag := "if"; tag != "else"; {
		test, err := p.tuple(tupleRules{noCondition: true})
		if err != nil {
			return nil, err
		}
		body, next, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		if tag = next; tag == "endif" {
			return s, p.expect(blockEndToken, "")
		}
	}
	var err error
	s.otherwise, err = p.closed("endif")
	return s, err
}

// set parses set … = …, and set … with a body.
func (p *parser) set(line int) (statement, error) {
	target, err := p.target("")
	if err != nil {
		return nil, err
	}
	if p.accept(operatorToken, "=") {
		value, err := p.tuple(tupleRules{})
		if err != nil {
			return nil, err
		}
		return set{line, target, value}, p.expect(blockEndToken, "")
	}
	s := setBlock{line: line, target: target}
	if p.now().is(operatorToken, "|") {
		if s.value, err = p.filters(captured{}); err != nil {
			return nil, err
		}
	}
	s.body, err = p.closed("endset")
	return s, err
}
