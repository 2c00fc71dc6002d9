package grammar

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// maxNesting bounds parentheses within others.
const maxNesting = 64

// parser reads a grammar and makes its rules as it goes.
type parser struct {
	tokens []token
	at     int
	budget *bytewise.Budget
	rules  *pushdown.Rules
	named  map[string]*named
	dfas   map[string]*bytewise.DFA
	depth  int
}

type named struct {
	id       pushdown.Rule
	from, to pushdown.Place
	defined  bool
	line     int // where it is first named
}

// compileEBNF makes rules of a grammar in the notation of llama.cpp's GBNF, as vLLM's
// clients send it:
//
//	root  ::= "[" item ("," item)* "]"
//	item  ::= [0-9]{1,3} | root   # a comment
//
// A rule is a name, "::=" and alternatives, up to the next rule. Within are texts in
// quotation marks, classes of characters as regular expressions have them, ".", other
// rules' names and parentheses, each with ?, *, + or {m,n} behind it. root is where a text
// begins. A rule that begins with itself is refused. It returns root.
func compileEBNF(text string, budget *bytewise.Budget, rules *pushdown.Rules) (pushdown.Rule, error) {
	tokens, err := lex(text)
	if err != nil {
		return 0, err
	}
	rules.Merge = true
	p := &parser{tokens: tokens, budget: budget, rules: rules, named: map[string]*named{}, dfas: map[string]*bytewise.DFA{}}
	root := p.rule("root", 1)
	for p.at < len(p.tokens) {
		if err := p.definition(); err != nil {
			return 0, err
		}
	}
	for name, r := range p.named {
		if !r.defined {
			return 0, fmt.Errorf("line %d: no rule is named %.40q", r.line, name)
		}
	}
	return root.id, rules.Err()
}

func (p *parser) rule(name string, line int) *named {
	r, ok := p.named[name]
	if !ok {
		id, from, to := p.rules.Add("rule " + name)
		r = &named{id: id, from: from, to: to, line: line}
		p.named[name] = r
	}
	return r
}

// peek returns the next token; one without a kind is the end.
func (p *parser) peek() token {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	line := 1
	if len(p.tokens) > 0 {
		line = p.tokens[len(p.tokens)-1].line
	}
	return token{line: line}
}

func (p *parser) fail(t token, want string) error {
	found := fmt.Sprintf("%.40q", t.text)
	if t.kind == 0 {
		found = "the end"
	}
	return fmt.Errorf("line %d: %s is wanted where %s stands", t.line, want, found)
}

func (p *parser) definition() error {
	name := p.peek()
	if name.kind != 'n' {
		return p.fail(name, "a rule's name")
	}
	p.at++
	if t := p.peek(); t.kind != '=' {
		return p.fail(t, "::=")
	}
	p.at++
	r := p.rule(name.text, name.line)
	if r.defined {
		return fmt.Errorf("line %d: rule %.40q is there twice", name.line, name.text)
	}
	r.defined = true
	return p.alternatives(r.from, r.to)
}

// alternatives adds ways between two places.
func (p *parser) alternatives(from, to pushdown.Place) error {
	if p.depth++; p.depth > maxNesting {
		return fmt.Errorf("line %d: parentheses are nested more than %d deep", p.peek().line, maxNesting)
	}
	defer func() { p.depth-- }()
	for {
		begin := p.rules.Place()
		p.rules.Free(from, begin)
		if err := p.sequence(begin, to); err != nil {
			return err
		}
		if p.peek().kind != '|' {
			return p.rules.Err()
		}
		p.at++
	}
}

func (p *parser) sequence(at, to pushdown.Place) error {
	for {
		t := p.peek()
		if t.kind == 0 || strings.ContainsRune("|)", t.kind) || t.kind == 'n' && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == '=' {
			p.rules.Free(at, to)
			return p.rules.Err()
		}
		next, err := p.repeated(at)
		if err != nil {
			return err
		}
		at = next
	}
}

// repeated adds an item as often as it says, behind a place.
func (p *parser) repeated(from pushdown.Place) (pushdown.Place, error) {
	begin := p.at
	p.skip()
	least, most, err := p.times()
	if err != nil {
		return from, err
	}
	end := p.at
	once := func(from pushdown.Place) (pushdown.Place, error) {
		p.at = begin
		to := p.rules.Place()
		if err := p.item(from, to); err != nil {
			return to, err
		}
		return to, p.rules.Err()
	}
	if max(least, most) >= countFrom {
		from, err = p.counted(pushdown.Guard{Least: least, Most: most}, from, once)
		p.at = end
		return from, err
	}
	for range least {
		if from, err = once(from); err != nil {
			return from, err
		}
	}
	out := p.rules.Place()
	p.rules.Free(from, out)
	if most < 0 {
		loop := p.rules.Place()
		p.rules.Free(from, loop)
		back, err := once(loop)
		if err != nil {
			return out, err
		}
		p.rules.Free(back, loop)
		p.rules.Free(back, out)
	}
	for range most - least {
		if from, err = once(from); err != nil {
			return out, err
		}
		p.rules.Free(from, out)
	}
	p.at = end
	return out, p.rules.Err()
}

// countFrom is the least count that is worth a rule that counts.
const countFrom = 16

// counted adds a rule that goes through an item as often as a guard says.
func (p *parser) counted(times pushdown.Guard, from pushdown.Place, once func(from pushdown.Place) (pushdown.Place, error)) (pushdown.Place, error) {
	to := p.rules.Place()
	id, begin, last := p.rules.Add("a repetition")
	p.rules.Call(from, to, id)
	item, first, end := p.rules.Add("what is repeated")
	p.rules.FreeIf(pushdown.Guard{Least: times.Least, Most: -1}, begin, last)
	more := pushdown.Guard{Most: times.Most - 1, Adds: true}
	if times.Most < 0 {
		more.Most = -1
	}
	p.rules.CallIf(more, begin, begin, item)
	behind, err := once(first)
	p.rules.Free(behind, end)
	return to, err
}

// skip passes over an item, to see what stands behind it.
func (p *parser) skip() {
	for open := 0; p.at < len(p.tokens); {
		switch p.tokens[p.at].kind {
		case '(':
			open++
		case ')':
			open--
		}
		if p.at++; open <= 0 {
			return
		}
	}
}

// times reads how often an item is there; most < 0: however often.
func (p *parser) times() (least, most int, err error) {
	t := p.peek()
	switch t.kind {
	case '?', '*', '+':
		p.at++
		return map[rune]int{'+': 1}[t.kind], map[rune]int{'?': 1, '*': -1, '+': -1}[t.kind], nil
	case '{':
		p.at++
		low, high, comma := strings.Cut(t.text, ",")
		if least, err = strconv.Atoi(strings.TrimSpace(low)); err == nil {
			most = least
			if high = strings.TrimSpace(high); comma && high == "" {
				most = -1
			} else if comma {
				most, err = strconv.Atoi(high)
			}
		}
		if err != nil || least < 0 || least > bytewise.MaxTimes || most >= 0 && most < least {
			return 0, 0, fmt.Errorf("line %d: {%.40s} is no number of times from 0 to %d", t.line, t.text, bytewise.MaxTimes)
		}
		if most > bytewise.MaxTimes {
			most = -1 // more than any answer has
		}
		return least, most, nil
	}
	return 1, 1, nil
}

func (p *parser) item(from, to pushdown.Place) error {
	t := p.peek()
	p.at++
	switch t.kind {
	case 'n':
		p.rules.Call(from, to, p.rule(t.text, t.line).id)
		return nil
	case '(':
		if err := p.alternatives(from, to); err != nil {
			return err
		}
		if t := p.peek(); t.kind != ')' {
			return p.fail(t, "a closing parenthesis")
		}
		p.at++
		return nil
	case '"':
		if t.text == "" {
			p.rules.Free(from, to)
			return nil
		}
		return p.term(from, to, t, regexp.QuoteMeta(t.text))
	case '[':
		return p.term(from, to, t, t.text)
	case '.':
		return p.term(from, to, t, `(?s:.)`)
	}
	p.at--
	return p.fail(t, "a text, a class, a rule's name or a parenthesis")
}

func (p *parser) term(from, to pushdown.Place, t token, expression string) error {
	d, ok := p.dfas[expression]
	if !ok {
		var err error
		if d, err = bytewise.Regexp(p.budget, expression, bytewise.Options{}); err != nil {
			return fmt.Errorf("line %d: %.40s: %w", t.line, t.text, err)
		}
		p.dfas[expression] = d
	}
	p.rules.Term(from, to, d)
	return nil
}
