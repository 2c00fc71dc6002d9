package jsonschema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

func escapeExpression(text string) string { return regexp.QuoteMeta(text) }

// literal adds a text as it is.
func (c *compiler) literal(from, to pushdown.Place, texts ...string) error {
	return c.literalIf(pushdown.Always, from, to, texts...)
}

func (c *compiler) literalIf(when pushdown.Guard, from, to pushdown.Place, texts ...string) error {
	return c.term(when, from, to, "literal "+strings.Join(texts, "\x00"), func() (*bytewise.DFA, error) { return bytewise.Literals(c.Budget, texts...) })
}

func (c *compiler) constants(b body, all *combined) error {
	var texts []string
	if all.types&null != 0 {
		texts = append(texts, "null")
	}
	if all.types&boolean != 0 {
		texts = append(texts, "false", "true")
	}
	return c.literal(b.from, b.to, texts...)
}

func (c *compiler) number(b body, all *combined) error {
	n := all.numbers
	n.Integer = all.types&fraction == 0
	key := fmt.Sprintf("number %v %v", n.Integer, all.types)
	if all.limited {
		key = fmt.Sprintf("%snumber of %p", ours, all)
	}
	err := c.term(pushdown.Always, b.from, b.to, key, func() (*bytewise.DFA, error) { return n.DFA(c.Budget) })
	keyword := "minimum"
	if n.MultipleOf != nil {
		keyword = "multipleOf"
	}
	return because(b.parts[0], keyword, err)
}

func (c *compiler) text(b body, all *combined) error {
	t, err := c.strings(all, bytewise.Options{Quoted: true})
	if err == nil {
		c.Rules.Text(b.from, b.to, t)
	}
	return err
}

// strings returns those that lengths and all patterns allow.
func (c *compiler) strings(all *combined, o bytewise.Options) (*bytewise.Strings, error) {
	key := fmt.Sprintf("%v %d %d", o, all.shortest, all.longest)
	for _, p := range all.patterns {
		key += "\x00" + p.keyword + "\x00" + p.text
	}
	if len(all.patterns) > 0 {
		key = ours + key
	}
	known := c.in(key)
	if t, ok := known.texts[key]; ok {
		return t, nil
	}
	t, err := c.buildStrings(all, o)
	if err != nil {
		return nil, c.becauseText(all, err)
	}
	known.texts[key] = t
	return t, nil
}

// becauseText says why strings cannot be made.
func (c *compiler) becauseText(all *combined, err error) error {
	switch {
	case len(all.patterns) > 0:
		return because(all.patterns[0].at, all.patterns[0].keyword, err)
	case all.longest < 0:
		return because(all.parts[0], "minLength", err)
	}
	return because(all.parts[0], "maxLength", err)
}

func (c *compiler) buildStrings(all *combined, o bytewise.Options) (*bytewise.Strings, error) {
	if all.longest >= 0 && all.shortest > all.longest {
		return nil, bytewise.ErrEmpty
	}
	if all.shortest > bytewise.MaxTimes {
		return nil, refuse(all.parts[0], "minLength", "no answer has so many characters")
	}
	expressions, key := []*bytewise.Expression{}, ""
	for _, p := range all.patterns {
		e, err := patternOf(p)
		if err != nil {
			return nil, because(p.at, p.keyword, err)
		}
		if e != nil && !strings.Contains(key, "\x00"+e.String()+"\x00") {
			expressions = append(expressions, e)
			key += "\x00" + e.String() + "\x00"
		}
	}
	if len(expressions) == 0 {
		expressions = append(expressions, bytewise.Any())
	}
	expressions, within := bytewise.Simplify(expressions, bytewise.Bounds{Least: all.shortest, Most: all.longest})
	body, err := c.bodyOf(expressions, within == bytewise.AnyLength && len(expressions) == 1, o)
	if err != nil {
		return nil, err
	}
	return bytewise.NewStrings(c.Budget, body, within)
}

// bodyOf finds what strings of expressions share, or makes it.
func (c *compiler) bodyOf(expressions []*bytewise.Expression, counted bool, o bytewise.Options) (*bytewise.Body, error) {
	key := fmt.Sprintf("%v %v", counted, o)
	for _, e := range expressions {
		key += "\x00" + e.String()
	}
	if len(expressions) > 1 || expressions[0].String() != bytewise.Any().String() {
		key = ours + key
	}
	known := c.in(key)
	if body, ok := known.bodies[key]; ok {
		return body, nil
	}
	body, err := bytewise.NewBody(c.Budget, expressions, counted, o)
	if err == nil {
		if known == c.Known {
			body.Settle(c.Budget)
		}
		known.bodies[key] = body
	}
	return body, err
}

// patternOf returns what a pattern or a format asks; nil: it says nothing of a text.
func patternOf(p pattern) (*bytewise.Expression, error) {
	if p.keyword == "format" {
		if expression, ok := formats[p.text]; ok {
			return bytewise.ECMA(expression)
		}
		return nil, nil
	}
	e, err := bytewise.ECMA(p.text)
	if err != nil {
		return nil, err
	}
	return e.Anywhere(), nil
}

func (c *compiler) list(b body, all *combined) error {
	if all.most >= 0 && all.least > all.most {
		return bytewise.ErrEmpty
	}
	if all.least > bytewise.MaxTimes {
		return refuse(b.parts[0], "minItems", "no answer has so many items")
	}
	if all.unique && (all.most < 0 || all.most > 1) {
		return c.uniqueList(b, all)
	}
	first, end, err := c.brackets(b, all.least == 0)
	if err == nil {
		err = c.items(all, first, end)
	}
	return because(b.parts[0], "items", err)
}

// brackets adds those of a list, and returns the places before its first item and behind its last.
func (c *compiler) brackets(b body, empty bool) (first, end pushdown.Place, err error) {
	open := c.Rules.Place()
	first, end = c.Rules.Place(), c.Rules.Place()
	c.Rules.Free(open, first) // behind a comma it is not to end
	if empty {
		c.Rules.Free(open, end)
	}
	if err = c.token(b.from, open, "[", false, true); err == nil {
		err = c.token(end, b.to, "]", true, false)
	}
	return first, end, err
}

// uniqueList adds a list without repetitions, of items that are some literals: in their order.
func (c *compiler) uniqueList(b body, all *combined) error {
	parts, never, err := c.flattenAll(all.item(0))
	if err != nil {
		return err
	}
	items, err := c.combine(parts)
	if err != nil {
		return err
	}
	if !never && (!items.listed || items.choices != nil || all.firstItems() > 0) {
		return refuse(b.parts[0], "uniqueItems", "it cannot be kept, unless items are of an enum: leave it out, and drop what is there twice")
	}
	before, end, err := c.brackets(b, all.least == 0)
	if err != nil {
		return because(b.parts[0], "items", err)
	}
	n, known := counting{does: true, most: all.most}, map[string]bool{}
	for _, v := range items.literals {
		holds, err := c.holds(items, v)
		if err != nil {
			return err
		}
		text := canonical(v)
		if !holds || never || known[text] {
			continue
		}
		known[text] = true
		behind, next := c.Rules.Place(), c.Rules.Place()
		id, from, to := c.Rules.Add("an item")
		c.Rules.Free(before, next)
		c.Rules.CallIf(n.takes(0), before, behind, id)
		c.Rules.FreeIf(n.ends(all.least), behind, end)
		err = c.write(from, to, v)
		if err == nil {
			err = c.comma(n.goesOn(0), behind, next)
		}
		if before = next; err != nil {
			return because(b.parts[0], "items", err)
		}
	}
	return nil
}

// counting are guards of a rule that counts, or of one that need not.
type counting struct {
	does bool
	most int // of what is counted; -1: however many
}

// takes returns the guard of one more, behind which so many have to come yet.
func (n counting) takes(yet int) pushdown.Guard {
	return n.guard(1+yet, true)
}

// goesOn returns the guard of a comma, behind which so many have to come, and one at least.
func (n counting) goesOn(yet int) pushdown.Guard {
	return n.guard(max(yet, 1), false)
}

func (n counting) guard(more int, adds bool) pushdown.Guard {
	if !n.does {
		return pushdown.Always
	}
	g := pushdown.Guard{Most: -1, Adds: adds}
	if n.most >= 0 {
		if g.Most = n.most - more; g.Most < 0 {
			return pushdown.Guard{Least: 1, Most: 0} // it never is
		}
	}
	return g
}

// ends returns the guard of an end.
func (n counting) ends(least int) pushdown.Guard {
	if !n.does {
		return pushdown.Always
	}
	return pushdown.Guard{Least: least, Most: -1}
}

// items adds the items of a list: those that have schemas of their own, and then any.
func (c *compiler) items(all *combined, before, end pushdown.Place) error {
	own, n := all.firstItems(), counting{most: all.most}
	if all.most > bytewise.MaxTimes {
		n.most = -1 // no answer has so many
	}
	n.does = n.most >= 0 || all.least > own+1
	for i := range own {
		if n.most >= 0 && i >= n.most {
			return c.Rules.Err()
		}
		behind, next := c.Rules.Place(), c.Rules.Place()
		if err := c.call(n.takes(0), before, behind, all.item(i)); err != nil {
			return err
		}
		if i+1 >= all.least {
			c.Rules.Free(behind, end)
		}
		if err := c.comma(n.goesOn(0), behind, next); err != nil {
			return err
		}
		before = next
	}
	behind := c.Rules.Place()
	if err := c.call(n.takes(0), before, behind, all.item(own)); err != nil {
		return err
	}
	c.Rules.FreeIf(n.ends(all.least), behind, end)
	if err := c.comma(n.goesOn(0), behind, before); err != nil {
		return err
	}
	return c.Rules.Err()
}

func (c *compiler) object(b body, all *combined) error {
	further, err := c.further(all)
	if err != nil {
		return err
	}
	if all.mostKeys >= 0 && max(len(all.required), all.leastKeys) > all.mostKeys {
		return bytewise.ErrEmpty
	}
	if len(further) > 0 && all.leastKeys > len(all.properties)+1 { // further ones may have the same name
		return refuse(b.parts[0], "minProperties", "%d cannot be kept: name so many properties", all.leastKeys)
	}
	open, first, end := c.Rules.Place(), c.Rules.Place(), c.Rules.Place()
	c.Rules.Free(open, first) // behind a comma it is not to end
	if err := c.token(b.from, open, "{", false, true); err != nil {
		return because(b.parts[0], "properties", err)
	}
	if err := c.token(end, b.to, "}", true, false); err != nil {
		return because(b.parts[0], "properties", err)
	}
	if len(all.required) == 0 && all.leastKeys == 0 {
		c.Rules.Free(open, end)
	}
	if all.mostKeys == 0 {
		return nil
	}
	return because(b.parts[0], "properties", c.members(all, first, end, further))
}

// named reports whether a schema names properties, if only none.
func (all *combined) named() bool {
	return slices.ContainsFunc(all.parts, func(p *value) bool { return p.get("properties") != nil })
}

// members adds the properties in their order, and further ones.
func (c *compiler) members(all *combined, before, end pushdown.Place, further []further) error {
	left, n := len(all.required), counting{most: all.mostKeys} // that may still come
	if len(further) == 0 && len(all.properties) <= all.mostKeys || n.most > bytewise.MaxTimes {
		n.most = -1
	}
	n.does = n.most >= 0 || all.leastKeys > max(len(all.required), 1)
	for _, p := range all.properties {
		next := c.Rules.Place()
		if all.required[p.key] {
			left--
		} else {
			c.Rules.Free(before, next)
		}
		behind, err := c.named(n.takes(left), before, p)
		if err != nil {
			return err
		}
		if left == 0 {
			c.Rules.FreeIf(n.ends(all.leastKeys), behind, end)
		}
		if err := c.comma(n.goesOn(left), behind, next); err != nil {
			return err
		}
		if before = next; c.Rules.Err() != nil {
			return c.Rules.Err()
		}
	}
	if len(further) == 0 {
		return nil
	}
	takes := n.takes(0)
	if n.does { // of further ones the first alone is certain to be another one
		takes.Least = max(takes.Least, all.leastKeys-1)
	}
	behind, err := c.unnamedOf(takes, before, further)
	if err != nil {
		return err
	}
	c.Rules.FreeIf(n.ends(all.leastKeys), behind, end)
	return c.comma(n.goesOn(0), behind, before)
}

// named adds a property, and returns the place behind it.
func (c *compiler) named(when pushdown.Guard, before pushdown.Place, p property) (behind pushdown.Place, err error) {
	value, behind := c.Rules.Place(), c.Rules.Place()
	if err := c.key(when, before, value, p.key); err != nil {
		return behind, err
	}
	return behind, c.call(pushdown.Always, value, behind, p.of)
}

// unnamedOf adds a property of any further kind, and returns the place behind it.
func (c *compiler) unnamedOf(when pushdown.Guard, before pushdown.Place, all []further) (behind pushdown.Place, err error) {
	behind = c.Rules.Place()
	for _, f := range all {
		colon, value := c.Rules.Place(), c.Rules.Place()
		f.names(when, before, colon)
		if err := c.token(colon, value, ":", true, true); err != nil {
			return behind, err
		}
		if err := c.call(pushdown.Always, value, behind, f.of); err != nil {
			return behind, err
		}
	}
	return behind, nil
}

// key adds the name of a property.
func (c *compiler) key(when pushdown.Guard, from, to pushdown.Place, name string) error {
	colon := c.Rules.Place()
	if err := c.literalIf(when, from, colon, quote(name)); err != nil {
		return err
	}
	return c.token(colon, to, ":", true, true)
}
