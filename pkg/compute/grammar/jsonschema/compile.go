package jsonschema

import (
	"errors"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// Settings are how documents are written, and what may be made for them.
type Settings struct {
	// Compact has no white space between tokens.
	Compact bool
	// Object has the document be one.
	Object bool
	// Closed has objects that name properties have no others, unless additionalProperties says so.
	Closed bool
	Budget *bytewise.Budget
	Rules  *pushdown.Rules
	// MostRules is how many different subschemas there may be.
	MostRules int
	// Known are automata that schemas before had too; nil: none. One schema at a time uses them.
	Known *Known
}

// Known are automata that many schemas have: of punctuation, names, literals, numbers and strings without patterns.
type Known struct {
	dfas   map[string]*bytewise.DFA
	bodies map[string]*bytewise.Body
	texts  map[string]*bytewise.Strings
	states int // of dfas
}

// What is kept of Known, until it begins anew.
const (
	maxKnown       = 1 << 12
	maxKnownStates = 1 << 18
)

func (k *Known) begin() {
	if k.dfas == nil || len(k.dfas)+len(k.texts) > maxKnown || k.states > maxKnownStates {
		*k = Known{dfas: map[string]*bytewise.DFA{}, bodies: map[string]*bytewise.Body{}, texts: map[string]*bytewise.Strings{}}
	}
}

// compiler makes rules of a schema.
type compiler struct {
	Settings
	root    *value
	numbers map[*value]uint32
	rules   map[string]pushdown.Rule
	bare    map[bared]*value
	own     Known             // what no other schema has
	made    map[string]*value // schemas that stand for what others say
	todo    []body
	steps   int
}

// body is a rule that has no ways yet.
type body struct {
	from, to pushdown.Place
	parts    []*value
}

// bared is a schema without one of its keywords.
type bared struct {
	of      *value
	keyword string
}

// maxSteps bounds the properties that are looked at.
const maxSteps = 1 << 20

// Compile adds the rules of a schema, and returns the one to begin with. An error about the
// schema is a *Refusal.
func Compile(schema string, s Settings) (pushdown.Rule, error) {
	root, err := parse(schema)
	if err != nil {
		return 0, err
	}
	c := &compiler{
		Settings: s, root: root, numbers: map[*value]uint32{}, rules: map[string]pushdown.Rule{},
		bare: map[bared]*value{}, made: map[string]*value{}, steps: maxSteps,
	}
	if c.Known == nil {
		c.Known = &Known{}
	}
	c.Known.begin()
	c.own.begin()
	of := []*value{root}
	if s.Object {
		of = append(of, &value{kind: 'o', members: []member{{"type", &value{kind: 's', text: "object"}}}})
	}
	begin, err := c.rule(nil, of)
	if err != nil {
		return 0, err
	}
	for len(c.todo) > 0 { // and not by recursion: references may be many
		next := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		if err := c.body(next); err != nil {
			return 0, err
		}
		if err := c.Rules.Err(); err != nil {
			return 0, because(next.parts[0], "", err)
		}
	}
	return begin, nil
}

// flattenAll flattens schemas that hold together.
func (c *compiler) flattenAll(of []*value) (parts []*value, never bool, err error) {
	for _, v := range of {
		more, none, err := c.flatten(v)
		if err != nil {
			return nil, false, err
		}
		never = never || none
		for _, p := range more {
			if !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	return parts, never, nil
}

// rule is that of values for which parts hold, which are flat, and more.
func (c *compiler) rule(parts, more []*value) (pushdown.Rule, error) {
	flat, never, err := c.flattenAll(more)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		if !slices.Contains(flat, p) {
			flat = append(flat, p)
		}
	}
	key := c.keyOf(flat)
	if never {
		key = "never"
	}
	id, ok := c.rules[key]
	if ok {
		return id, nil
	}
	if len(c.rules) >= c.MostRules {
		return 0, refuse(c.root, "", "the grammar is too large: it has more than %d different subschemas; ask for less", c.MostRules)
	}
	name := "any value"
	if len(flat) > 0 {
		name = flat[0].pointer
	}
	if name == "" {
		name = "the schema"
	}
	id, from, to := c.Rules.Add(name)
	c.rules[key] = id
	if !never {
		if len(flat) == 0 {
			flat = []*value{{kind: 'o'}}
		}
		c.todo = append(c.todo, body{from, to, flat})
	}
	return id, nil
}

// call adds a value for which all of some schemas hold.
func (c *compiler) call(when pushdown.Guard, from, to pushdown.Place, of []*value) error {
	id, err := c.rule(nil, of)
	if err == nil {
		c.Rules.CallIf(when, from, to, id)
	}
	return err
}

// body adds the ways through a rule.
func (c *compiler) body(b body) error {
	all, err := c.combine(b.parts)
	if err != nil {
		return err
	}
	if all.choices != nil {
		return c.choose(b, all)
	}
	if all.listed {
		return c.literals(b, all)
	}
	for _, t := range []struct {
		is  types
		add func(body, *combined) error
	}{
		{null | boolean, c.constants}, {whole | fraction, c.number}, {text, c.text}, {list, c.list}, {object, c.object},
	} {
		if all.types&t.is == 0 {
			continue
		}
		if err := t.add(b, all); err != nil && !errors.Is(err, bytewise.ErrEmpty) {
			return err
		}
	}
	return nil
}

// choose adds a way for each of anyOf's or oneOf's schemas, or of what stands for them.
func (c *compiler) choose(b body, all *combined) error {
	at := all.choices.get(all.choice)
	of := at.items
	switch all.choice {
	case "oneOf":
		var err error
		if of, err = c.apart(all, of); err != nil {
			return err
		}
	case "anyOf":
	default:
		of = c.dependents(all.choices, all.choice, at)
	}
	rest := slices.Clone(b.parts)
	rest[slices.Index(rest, all.choices)] = c.without(all.choices, all.choice)
	for _, v := range of {
		id, err := c.rule(rest, []*value{v})
		if err != nil {
			return err
		}
		c.Rules.Call(b.from, b.to, id)
	}
	return nil
}

// without returns a flat schema without a keyword.
func (c *compiler) without(v *value, keyword string) *value {
	key := bared{v, keyword}
	if out, ok := c.bare[key]; ok {
		return out
	}
	out := &value{kind: 'o', pointer: v.pointer, members: slices.DeleteFunc(slices.Clone(v.members), func(m member) bool {
		return m.key == keyword || m.key == "$ref" || m.key == "allOf"
	})}
	c.bare[key] = out
	return out
}

// ours begins keys of what other schemas mean something else by.
const ours = "our "

// in returns what has a key.
func (c *compiler) in(key string) *Known {
	if strings.HasPrefix(key, ours) {
		return &c.own
	}
	return c.Known
}

// dfa finds an automaton, or makes it.
func (c *compiler) dfa(key string, build func() (*bytewise.DFA, error)) (*bytewise.DFA, error) {
	known := c.in(key)
	if d, ok := known.dfas[key]; ok {
		return d, nil
	}
	d, err := build()
	if err == nil {
		known.dfas[key] = d
		known.states += d.States()
	}
	return d, err
}

// term adds a text that an automaton accepts.
func (c *compiler) term(when pushdown.Guard, from, to pushdown.Place, key string, build func() (*bytewise.DFA, error)) error {
	d, err := c.dfa(key, build)
	if err == nil {
		c.Rules.TermIf(when, from, to, d)
	}
	return err
}

// comma adds one between items or properties.
func (c *compiler) comma(when pushdown.Guard, from, to pushdown.Place) error {
	return c.tokenIf(when, from, to, ",", true, true)
}

// token adds one of JSON's punctuation marks, with white space around; before or behind.
func (c *compiler) token(from, to pushdown.Place, mark string, before, behind bool) error {
	return c.tokenIf(pushdown.Always, from, to, mark, before, behind)
}

func (c *compiler) tokenIf(when pushdown.Guard, from, to pushdown.Place, mark string, before, behind bool) error {
	const space = `[ \t\n\r]*`
	expression := escapeExpression(mark)
	if !c.Compact {
		expression = strings.Repeat(space, b2i(before)) + expression + strings.Repeat(space, b2i(behind))
	}
	return c.term(when, from, to, "token "+expression, func() (*bytewise.DFA, error) { return bytewise.Regexp(c.Budget, expression, bytewise.Options{}) })
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
