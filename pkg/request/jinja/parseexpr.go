package jinja

import (
	"fmt"
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

// tuple parses one expression, or several with commas.
func (p *parser) tuple(rules tupleRules) (expression, error) {
	var items []expression
	comma := false
	for !p.tupleEnds(rules) {
		item, err := p.tupleItem(rules)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if !p.accept(operatorToken, ",") {
			break
		}
		comma = true
	}
	switch {
	case len(items) == 1 && !comma:
		return items[0], nil
	case len(items) == 0 && !rules.parentheses:
		return nil, fmt.Errorf("unexpected %v where an expression should be", p.now())
	}
	return listOf{tuple, items}, nil
}

func (p *parser) tupleEnds(rules tupleRules) bool {
	t := p.now()
	return t.kind == variableEndToken || t.kind == blockEndToken || t.is(operatorToken, ")") || rules.until != "" && t.is(nameToken, rules.until)
}

func (p *parser) tupleItem(rules tupleRules) (expression, error) {
	switch {
	case rules.targets:
		e, err := p.primary()
		if v, ok := e.(variable); ok && err == nil && p.accept(operatorToken, ".") {
			attribute, err := p.word()
			return attributeOf{v, attribute}, err
		}
		return e, err
	case rules.noCondition:
		return p.or()
	}
	return p.expression()
}

// expression parses a if b else c.
func (p *parser) expression() (expression, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.or()
	for err == nil && p.accept(nameToken, "if") {
		if err := p.term(); err != nil {
			return nil, err
		}
		c := condition{then: e}
		if c.test, err = p.or(); err == nil && p.accept(nameToken, "else") {
			c.otherwise, err = p.expression()
		}
		e = c
	}
	return e, err
}

// chain parses left operands and operators, which bind to the left.
func (p *parser) chain(k kind, ops string, operand func() (expression, error), join func(op string, a, b expression) expression) (expression, error) {
	left, err := operand()
	for err == nil && p.now().kind == k && strings.Contains(ops, " "+p.now().value+" ") {
		if err := p.term(); err != nil {
			return nil, err
		}
		op := p.next().value
		var right expression
		right, err = operand()
		left = join(op, left, right)
	}
	return left, err
}

func (p *parser) or() (expression, error) {
	return p.chain(nameToken, " or ", p.and, func(_ string, a, b expression) expression { return either{a, b} })
}

func (p *parser) and() (expression, error) {
	return p.chain(nameToken, " and ", p.not, func(_ string, a, b expression) expression { return both{a, b} })
}

func (p *parser) not() (expression, error) {
	if !p.accept(nameToken, "not") {
		return p.compare()
	}
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.not()
	return negation{e}, err
}

// compare parses a < b <= c.
func (p *parser) compare() (expression, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := comparison{first: first}
	for {
		op, ok := p.compareOperator()
		if !ok {
			break
		}
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, e)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
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

func (p *parser) sum() (expression, error) {
	return p.chain(operatorToken, " + - ", p.concat, binaryOf)
}

func (p *parser) concat() (expression, error) {
	return p.chain(operatorToken, " ~ ", p.product, binaryOf)
}

func (p *parser) product() (expression, error) {
	return p.chain(operatorToken, " * / // % ", p.power, binaryOf)
}

func (p *parser) power() (expression, error) {
	return p.chain(operatorToken, " ** ", func() (expression, error) { return p.unary(true) }, binaryOf)
}

// unary parses signs, a value, and what follows it; filters bind to the whole of
// it, signs included.
func (p *parser) unary(withFilters bool) (expression, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var e expression
	if t := p.now(); t.is(operatorToken, "-") || t.is(operatorToken, "+") {
		p.next()
		if e, err = p.unary(false); err == nil {
			e = sign{t.value == "-", e}
		}
	} else {
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && withFilters {
		e, err = p.filters(e)
	}
	return e, err
}

// primary parses a name, a literal, or what stands in brackets.
func (p *parser) primary() (expression, error) {
	switch t := p.next(); {
	case t.kind == nameToken:
		return named(t.value), nil
	case t.kind == textToken:
		var s strings.Builder
		s.WriteString(t.value)
		for p.now().kind == textToken {
			s.WriteString(p.next().value)
		}
		return constant{Inside(s.String())}, nil
	case t.kind == integerToken:
		n, err := strconv.ParseInt(t.value, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("number %.40s has more than 64 bits", t.value)
		}
		return constant{int(n)}, nil
	case t.kind == floatToken:
		f, _ := strconv.ParseFloat(t.value, 64) // out of range is infinite, as in Python
		return constant{f}, nil
	case t.is(operatorToken, "("):
		e, err := p.tuple(tupleRules{parentheses: true})
		if err != nil {
			return nil, err
		}
		return e, p.expect(operatorToken, ")")
	case t.is(operatorToken, "["):
		return p.list()
	case t.is(operatorToken, "{"):
		return p.dict()
	default:
		return nil, fmt.Errorf("unexpected %v", t)
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

func (p *parser) list() (expression, error) {
	out := listOf{kind: list}
	for !p.now().is(operatorToken, "]") {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		if out.items = append(out.items, e); !p.accept(operatorToken, ",") {
			break
		}
	}
	return out, p.expect(operatorToken, "]")
}

func (p *parser) dict() (expression, error) {
	var out dictOf
	for !p.now().is(operatorToken, "}") {
		key, err := p.expression()
		if err == nil {
			err = p.expect(operatorToken, ":")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		out.keys, out.values = append(out.keys, key), append(out.values, value)
		if !p.accept(operatorToken, ",") {
			break
		}
	}
	return out, p.expect(operatorToken, "}")
}
