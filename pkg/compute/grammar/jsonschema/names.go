package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// further are properties that are not named: their names, and what holds of their values.
type further struct {
	names func(when pushdown.Guard, from, to pushdown.Place)
	of    []*value
}

// further returns the kinds of properties that are not named, by which patterns their names match.
func (c *compiler) further(all *combined) (out []further, err error) {
	if all.names, err = c.checkNames(all); err != nil {
		return nil, err
	}
	for matched := range 1 << len(all.patterned) {
		of := all.unnamed(matched)
		_, never, err := c.flattenAll(of)
		if err != nil {
			return nil, err
		}
		if never || matched == 0 && (all.shut || c.Closed && all.named() && !all.adds()) {
			continue
		}
		names, err := c.unnamed(all, matched)
		switch {
		case errors.Is(err, bytewise.ErrEmpty):
		case err != nil:
			return nil, because(all.parts[0], "additionalProperties", err)
		default:
			out = append(out, further{names, of})
		}
	}
	return out, nil
}

// adds reports whether any schema tells of further properties.
func (all *combined) adds() bool {
	return slices.ContainsFunc(all.parts, func(p *value) bool { return p.get("additionalProperties") != nil })
}

// unnamed returns what holds of a property that is not named, and whose name matches some patterns.
func (all *combined) unnamed(matched int) (of []*value) {
	for _, p := range all.parts {
		told := false
		for i, m := range all.patterned {
			if m.part == p && matched>>i&1 == 1 {
				of, told = append(of, m.of), true
			}
		}
		if more := p.get("additionalProperties"); more != nil && !told {
			of = append(of, more)
		}
	}
	return of
}

// matching returns the schemas of a part's patterns that a name matches.
func (c *compiler) matching(all *combined, p *value, name string) (of []*value, err error) {
	for _, m := range all.patterned {
		if m.part != p {
			continue
		}
		t, err := c.namesLike(m, bytewise.Options{})
		switch {
		case errors.Is(err, bytewise.ErrEmpty):
		case err != nil:
			return nil, err
		case t.Match(name):
			of = append(of, m.of)
		}
	}
	return of, nil
}

// namesLike returns the names that match a pattern.
func (c *compiler) namesLike(m patterned, o bytewise.Options) (*bytewise.Strings, error) {
	return c.strings(&combined{parts: []*value{m.part}, longest: -1, patterns: []pattern{m.pattern}}, o)
}

// checkNames says of the named properties whether they may have their names, and returns what
// holds of other ones' names.
func (c *compiler) checkNames(all *combined) ([]*value, error) {
	parts, never, err := c.flattenAll(all.names)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 && !never {
		return nil, nil
	}
	parts = append(parts, c.stringSchema())
	for i := range all.properties {
		p := &all.properties[i]
		holds := false
		if !never {
			if holds, err = c.mayBe(parts, p.key); err != nil {
				return nil, err
			}
		}
		if !holds {
			p.of = append(p.of, nothing)
		}
	}
	if never {
		all.shut, all.patterned = true, nil
	}
	return parts, nil
}

// stringSchema is that of any string.
func (c *compiler) stringSchema() *value {
	return c.make(&value{}, "text", &value{}, func() []member { return []member{{"type", &value{kind: 's', text: "string"}}} })
}

// mayBe reports whether a name is one that schemas allow.
func (c *compiler) mayBe(parts []*value, name string) (bool, error) {
	of, err := c.names(parts)
	if err != nil {
		return false, err
	}
	v := &value{kind: 's', text: name}
	if of.listed && !slices.ContainsFunc(of.literals, func(l *value) bool { return canonical(l) == canonical(v) }) {
		return false, nil
	}
	return c.holds(of, v)
}

// names returns what schemas of names say.
func (c *compiler) names(parts []*value) (*combined, error) {
	of, err := c.combine(parts)
	if err == nil && of.choices != nil {
		err = refuse(of.choices, "propertyNames", "%s of names cannot be kept: use pattern or enum", of.choice)
	}
	return of, err
}

// unnamed returns the names that are none of the properties', and match some patterns. They have no
// escapes that need not be: they could write a property's name in another way.
func (c *compiler) unnamed(all *combined, matched int) (func(pushdown.Guard, pushdown.Place, pushdown.Place), error) {
	t, names, err := c.allowedNames(all)
	if err != nil {
		return nil, err
	}
	if len(all.names) > 0 {
		names = ours + names
	}
	key := ""
	if len(all.properties) == 0 && len(all.patterned) == 0 && t != nil {
		return func(when pushdown.Guard, from, to pushdown.Place) { c.Rules.TextIf(when, from, to, t) }, nil
	}
	for i, m := range all.patterned {
		key += fmt.Sprintf("\x00%d %s", matched>>i&1, m.text)
	}
	for _, p := range all.properties {
		key += "\x00" + quote(p.key)
	}
	d, err := c.dfa(names+"names "+key, func() (*bytewise.DFA, error) { return c.unnamedDFA(all, t, names, matched) })
	if err != nil {
		return nil, err
	}
	return func(when pushdown.Guard, from, to pushdown.Place) { c.Rules.TermIf(when, from, to, d) }, nil
}

// plain is how names are written.
var plain = bytewise.Options{Quoted: true, Plain: true}

// allowedNames returns those that propertyNames allow; nil: they are listed.
func (c *compiler) allowedNames(all *combined) (t *bytewise.Strings, key string, err error) {
	of := &combined{parts: all.parts, longest: -1}
	if len(all.names) > 0 {
		if of, err = c.names(all.names); err != nil {
			return nil, "", err
		}
		key = c.keyOf(all.names)
	}
	if of.listed {
		return nil, key, nil
	}
	t, err = c.strings(of, plain)
	return t, key, err
}

// unnamedDFA reads names that are neither listed nor like others; names is the key of what propertyNames allow.
func (c *compiler) unnamedDFA(all *combined, t *bytewise.Strings, names string, matched int) (d *bytewise.DFA, err error) {
	if t != nil {
		d, err = c.dfa(names+"any name", func() (*bytewise.DFA, error) { return t.DFA(c.Budget) })
	} else {
		d, err = c.listedNames(all)
	}
	for i, m := range all.patterned {
		if err != nil {
			return nil, err
		}
		like, matches := (*bytewise.DFA)(nil), matched>>i&1 == 1
		names, wrong := c.namesLike(m, plain)
		if wrong == nil {
			like, wrong = names.DFA(c.Budget)
		}
		switch {
		case errors.Is(wrong, bytewise.ErrEmpty) && !matches:
		case wrong != nil:
			return nil, wrong
		case matches:
			d, err = bytewise.And(c.Budget, d, like)
		default:
			d, err = bytewise.Without(c.Budget, d, like)
		}
	}
	if err != nil || len(all.properties) == 0 {
		return d, err
	}
	quoted := make([]string, 0, len(all.properties))
	for _, p := range all.properties {
		quoted = append(quoted, quote(p.key))
	}
	named, err := bytewise.Literals(c.Budget, quoted...)
	if err != nil {
		return nil, err
	}
	return bytewise.Without(c.Budget, d, named)
}

// listedNames returns those that propertyNames list.
func (c *compiler) listedNames(all *combined) (*bytewise.DFA, error) {
	of, err := c.names(all.names)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, v := range of.literals {
		holds, err := c.holds(of, v)
		if err != nil {
			return nil, err
		}
		if holds && v.kind == 's' {
			texts = append(texts, quote(v.text))
		}
	}
	if len(texts) == 0 {
		return nil, bytewise.ErrEmpty
	}
	return bytewise.Literals(c.Budget, texts...)
}

// within reports whether a schema is written within another one.
func (v *value) within(of *value) bool {
	return strings.HasPrefix(v.pointer, of.pointer+"/") || v.pointer == of.pointer
}
