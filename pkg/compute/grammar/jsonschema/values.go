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
	return c.term(from, to, "literal "+strings.Join(texts, "\x00"), func() (*bytewise.DFA, error) { return bytewise.Literals(c.Budget, texts...) })
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
		key = fmt.Sprintf("number of %p", all)
	}
	err := c.term(b.from, b.to, key, func() (*bytewise.DFA, error) { return n.DFA(c.Budget) })
	keyword := "minimum"
	if n.MultipleOf != nil {
		keyword = "multipleOf"
	}
	return because(b.parts[0], keyword, err)
}

func (c *compiler) text(b body, all *combined) error {
	d, err := c.textDFA(all, true)
	if err == nil {
		c.Rules.Term(b.from, b.to, d)
	}
	return err
}

// textDFA accepts the strings that are allowed, within their quotation marks or as they are.
func (c *compiler) textDFA(all *combined, quoted bool) (*bytewise.DFA, error) {
	key := fmt.Sprintf("text %v %d %d", quoted, all.shortest, all.longest)
	for _, p := range all.patterns {
		key += "\x00" + p.keyword + "\x00" + p.text
	}
	return c.dfa(key, func() (*bytewise.DFA, error) {
		out, err := c.buildText(all, bytewise.Options{Quoted: quoted, Search: true})
		if err != nil || !quoted {
			return out, err
		}
		out, err = bytewise.Quote(c.Budget, out)
		return out, because(all.parts[0], "", err)
	})
}

// buildText accepts what lengths and all patterns allow.
func (c *compiler) buildText(all *combined, o bytewise.Options) (out *bytewise.DFA, err error) {
	if all.longest >= 0 && all.shortest > all.longest {
		return nil, bytewise.ErrEmpty
	}
	if all.shortest > 0 || all.longest >= 0 || len(all.patterns) == 0 {
		keyword := "maxLength"
		if all.longest < 0 {
			keyword = "minLength"
		}
		if out, err = bytewise.Text(c.Budget, all.shortest, all.longest, o); err != nil {
			return nil, because(all.parts[0], keyword, err)
		}
	}
	for _, p := range all.patterns {
		d, err := c.patternDFA(p, o)
		if err == nil && out != nil {
			d, err = bytewise.And(c.Budget, out, d)
		}
		if err != nil {
			return nil, because(p.at, p.keyword, err)
		}
		out = d
	}
	return out, nil
}

func (c *compiler) patternDFA(p pattern, o bytewise.Options) (*bytewise.DFA, error) {
	if p.keyword == "pattern" {
		return bytewise.Regexp(c.Budget, p.text, o)
	}
	expression, ok := formats[p.text]
	if !ok {
		return nil, refuse(p.at, "format", "%.40q is not known (%s are): leave it out, or give a pattern", p.text, formatNames())
	}
	o.Search = false
	return bytewise.Regexp(c.Budget, expression, o)
}

func (c *compiler) list(b body, all *combined) error {
	least, most, own := all.least, all.most, all.firstItems()
	if most >= 0 && least > most {
		return bytewise.ErrEmpty
	}
	last := max(least, own) // places up to there, then one that repeats
	if most >= 0 {
		last = most
	}
	if last > c.Rules.Places {
		keyword := "maxItems"
		if last == least {
			keyword = "minItems"
		}
		return refuse(b.parts[0], keyword, "the grammar is too large: %d items have no room; ask for fewer", last)
	}
	open, first, end := c.Rules.Place(), c.Rules.Place(), c.Rules.Place()
	c.Rules.Free(open, first) // behind a comma it is not to end
	if err := c.token(b.from, open, "[", false, true); err != nil {
		return because(b.parts[0], "items", err)
	}
	if err := c.token(end, b.to, "]", true, false); err != nil {
		return because(b.parts[0], "items", err)
	}
	if least == 0 {
		c.Rules.Free(open, end)
	}
	return c.items(b, all, first, end, last)
}

// items adds the items of a list, up to the last place.
func (c *compiler) items(b body, all *combined, before, end pushdown.Place, last int) error {
	for i := range last {
		behind := c.Rules.Place()
		if err := c.call(before, behind, all.item(i)); err != nil {
			return err
		}
		if i+1 >= all.least {
			c.Rules.Free(behind, end)
		}
		next := c.Rules.Place()
		if err := c.token(behind, next, ",", true, true); err != nil {
			return because(b.parts[0], "items", err)
		}
		if before = next; c.Rules.Err() != nil {
			return because(b.parts[0], "maxItems", c.Rules.Err())
		}
	}
	if all.most >= 0 {
		return nil // what is behind the last comma leads nowhere
	}
	behind := c.Rules.Place()
	if err := c.call(before, behind, all.item(max(last, all.firstItems()))); err != nil {
		return err
	}
	c.Rules.Free(behind, end)
	return because(b.parts[0], "items", c.token(behind, before, ",", true, true))
}

func (c *compiler) object(b body, all *combined) error {
	_, closed, err := c.flattenAll(all.additional)
	if err != nil {
		return err
	}
	closed = closed || c.Closed && len(all.additional) == 0 && all.named()
	if err := c.checkKeys(b.parts[0], all, closed); err != nil {
		return err
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
	return c.members(b, all, first, end, closed)
}

// named says whether a schema names properties, if only none.
func (all *combined) named() bool {
	return slices.ContainsFunc(all.parts, func(p *value) bool { return p.get("properties") != nil })
}

// checkKeys refuses to count keys, unless what else is said does.
func (c *compiler) checkKeys(v *value, all *combined, closed bool) error {
	if all.leastKeys > max(len(all.required), 1) {
		return refuse(v, "minProperties", "%d cannot be kept: require so many properties by name", all.leastKeys)
	}
	if all.mostKeys > 0 && (!closed || len(all.properties) > all.mostKeys) {
		return refuse(v, "maxProperties", "%d cannot be kept: name so many properties, and set additionalProperties to false", all.mostKeys)
	}
	if all.mostKeys >= 0 && len(all.required) > all.mostKeys {
		return bytewise.ErrEmpty
	}
	return nil
}

// members adds the properties in their order, and further ones.
func (c *compiler) members(b body, all *combined, before, end pushdown.Place, closed bool) error {
	left := len(all.required) // that may still come
	for _, p := range all.properties {
		value, behind, next := c.Rules.Place(), c.Rules.Place(), c.Rules.Place()
		if err := c.key(before, value, p.key); err != nil {
			return because(b.parts[0], "properties", err)
		}
		if err := c.call(value, behind, p.of); err != nil {
			return err
		}
		if all.required[p.key] {
			left--
		} else {
			c.Rules.Free(before, next)
		}
		if left == 0 {
			c.Rules.Free(behind, end)
		}
		if err := c.token(behind, next, ",", true, true); err != nil {
			return because(b.parts[0], "properties", err)
		}
		if before = next; c.Rules.Err() != nil {
			return because(b.parts[0], "properties", c.Rules.Err())
		}
	}
	if closed {
		return nil
	}
	value, behind := c.Rules.Place(), c.Rules.Place()
	if err := c.furtherKey(before, value, all); err != nil {
		return because(b.parts[0], "additionalProperties", err)
	}
	if err := c.call(value, behind, all.additional); err != nil {
		return err
	}
	c.Rules.Free(behind, end)
	return because(b.parts[0], "additionalProperties", c.token(behind, before, ",", true, true))
}

// key adds the name of a property.
func (c *compiler) key(from, to pushdown.Place, name string) error {
	colon := c.Rules.Place()
	if err := c.literal(from, colon, quote(name)); err != nil {
		return err
	}
	return c.token(colon, to, ":", true, true)
}

// furtherKey adds a name that is none of the properties'. It has no escapes that need not be:
// they could write a property's name in another way.
func (c *compiler) furtherKey(from, to pushdown.Place, all *combined) error {
	names := make([]string, 0, len(all.properties))
	for _, p := range all.properties {
		names = append(names, quote(p.key))
	}
	slices.Sort(names)
	colon := c.Rules.Place()
	err := c.term(from, colon, "key but "+strings.Join(names, "\x00"), func() (*bytewise.DFA, error) {
		body, err := bytewise.Text(c.Budget, 0, -1, bytewise.Options{Quoted: true, Plain: true})
		if err != nil {
			return nil, err
		}
		each, err := bytewise.Quote(c.Budget, body)
		if err != nil || len(names) == 0 {
			return each, err
		}
		named, err := bytewise.Literals(c.Budget, names...)
		if err != nil {
			return nil, err
		}
		return bytewise.Without(c.Budget, each, named)
	})
	if err != nil {
		return err
	}
	return c.token(colon, to, ":", true, true)
}
