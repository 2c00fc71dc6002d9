package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// tupleRules say how expressions with commas between them are parsed.
type tupleRules struct {
	targets     bool   // names only
	noCondition bool   // no inline if
	until       string // a name that ends it
	parentheses bool   // they stand around it, so it may be empty
}

func (p *parser) tuple(rules tupleRules) expression {
	var items []expression
	comma := false
	for !p.tupleEnds(rules) {
		items = append(items, p.tupleItem(rules))
		if !p.accept(operatorToken, ",") {
			break
		}
		comma = true
	}
	switch {
	case len(items) == 1 && !comma:
		return items[0]
	case len(items) == 0 && !rules.parentheses:
		panic(failf("unexpected %v where an expression should be", p.now()))
	}
	return listOf{tuple, items}
}

func (p *parser) tupleEnds(rules tupleRules) bool {
	t := p.now()
	return t.kind == variableEndToken || t.kind == blockEndToken || t.is(operatorToken, ")") || rules.until != "" && t.is(nameToken, rules.until)
}

func (p *parser) tupleItem(rules tupleRules) expression {
	switch {
	case rules.targets:
		e := p.primary()
		if v, ok := e.(variable); ok && p.accept(operatorToken, ".") {
			return attributeOf{v, p.word()}
		}
		return e
	case rules.noCondition:
		return p.or()
	}
	return p.expression()
}

// expression parses a if b else c.
func (p *parser) expression() expression {
	p.enter()
	defer p.leave()
	e := p.or()
	for p.accept(nameToken, "if") {
		p.term()
		c := condition{then: e, test: p.or()}
		if p.accept(nameToken, "else") {
			c.otherwise = p.expression()
		}
		e = c
	}
	return e
}

// chain parses left operands and operators, which bind to the left.
func (p *parser) chain(k kind, ops string, operand func() expression, join func(op string, a, b expression) expression) expression {
	left := operand()
	for p.now().kind == k && strings.Contains(ops, " "+p.now().value+" ") {
		p.term()
		op := p.next().value
		left = join(op, left, operand())
	}
	return left
}

func (p *parser) or() expression {
	return p.chain(nameToken, " or ", p.and, func(_ string, a, b expression) expression { return either{a, b} })
}

func (p *parser) and() expression {
	return p.chain(nameToken, " and ", p.not, func(_ string, a, b expression) expression { return both{a, b} })
}

func (p *parser) not() expression {
	if !p.accept(nameToken, "not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	return negation{p.not()}
}

// compare parses a < b <= c.
func (p *parser) compare() expression {
	first := p.sum()
	c := comparison{first: first}
	for {
		op, ok := p.compareOperator()
		if !ok {
			break
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, p.sum())
	}
	if len(c.ops) == 0 {
		return first
	}
	return c
}

var compareOperators = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compareOperator() (string, bool) {
	switch t := p.now(); {
	case t.kind == operatorToken && slices.Contains(compareOperators, t.value):
		return p.next().value, true
	case t.is(nameToken, "in"):
		return p.next().value, true
	case t.is(nameToken, "not") && p.ahead().is(nameToken, "in"):
		p.next()
		p.next()
		return "not in", true
	}
	return "", false
}

func binaryOf(op string, a, b expression) expression { return binary{op, a, b} }

func (p *parser) sum() expression {
	return p.chain(operatorToken, " + - ", p.concat, binaryOf)
}

func (p *parser) concat() expression {
	return p.chain(operatorToken, " ~ ", p.product, binaryOf)
}

func (p *parser) product() expression {
	return p.chain(operatorToken, " * / // % ", p.power, binaryOf)
}

func (p *parser) power() expression {
	return p.chain(operatorToken, " ** ", func() expression { return p.unary(true) }, binaryOf)
}

// unary parses signs, a value, and what follows it; filters bind to the whole of
// it, signs included.
func (p *parser) unary(withFilters bool) expression {
	p.enter()
	defer p.leave()
	var e expression
	if t := p.now(); t.is(operatorToken, "-") || t.is(operatorToken, "+") {
		p.next()
		e = sign{t.value == "-", p.unary(false)}
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if withFilters {
		e = p.filters(e)
	}
	return e
}

// primary parses a name, a literal, or what stands in brackets.
func (p *parser) primary() expression {
	switch t := p.next(); {
	case t.kind == nameToken:
		return named(t.value)
	case t.kind == textToken:
		var s strings.Builder
		s.WriteString(t.value)
		for p.now().kind == textToken {
			s.WriteString(p.next().value)
		}
		return constant{Inside(s.String())}
	case t.kind == integerToken:
		n, err := strconv.ParseInt(t.value, 0, 64)
		if err != nil {
			panic(failf("number %.40s has more than 64 bits", t.value))
		}
		return constant{int(n)}
	case t.kind == floatToken:
		f, _ := strconv.ParseFloat(t.value, 64) // out of range is infinite, as in Python
		return constant{f}
	case t.is(operatorToken, "("):
		e := p.tuple(tupleRules{parentheses: true})
		p.expect(operatorToken, ")")
		return e
	case t.is(operatorToken, "["):
		return p.list()
	case t.is(operatorToken, "{"):
		return p.dict()
	default:
		panic(failf("unexpected %v", t))
	}
}

func named(word string) expression {
	switch word {
	case "true", "True":
		return constant{true}
	case "false", "False":
		return constant{false}
	case "none", "None":
		return constant{nil}
	}
	return variable(word)
}

func (p *parser) list() expression {
	out := listOf{kind: list}
	for !p.now().is(operatorToken, "]") {
		if out.items = append(out.items, p.expression()); !p.accept(operatorToken, ",") {
			break
		}
	}
	p.expect(operatorToken, "]")
	return out
}

func (p *parser) dict() expression {
	var out dictOf
	for !p.now().is(operatorToken, "}") {
		key := p.expression()
		p.expect(operatorToken, ":")
		out.keys, out.values = append(out.keys, key), append(out.values, p.expression())
		if !p.accept(operatorToken, ",") {
			break
		}
	}
	p.expect(operatorToken, "}")
	return out
}
