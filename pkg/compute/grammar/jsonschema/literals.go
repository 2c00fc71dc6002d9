package jsonschema

import (
	"cmp"
	"errors"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// literals adds the values of enum and const.
func (c *compiler) literals(b body, all *combined) error {
	var scalars []string
	for _, v := range all.literals {
		ok, err := c.holds(all, v)
		switch {
		case err != nil:
			return err
		case !ok:
		case v.kind == 'o' || v.kind == 'a':
			if err := c.write(b.from, b.to, v); err != nil {
				return because(b.parts[0], "enum", err)
			}
		default:
			scalars = append(scalars, scalarText(v))
		}
	}
	if len(scalars) == 0 {
		return nil
	}
	slices.Sort(scalars)
	return because(b.parts[0], "enum", c.literal(b.from, b.to, slices.Compact(scalars)...))
}

// holds reports whether what else is said of a value allows a literal.
func (c *compiler) holds(all *combined, v *value) (bool, error) {
	is := typeOf(v)
	if all.types&is == 0 {
		return false, nil
	}
	switch is {
	case text:
		if len(all.patterns) == 0 && all.shortest == 0 && all.longest < 0 {
			return true, nil
		}
		d, err := c.strings(all, bytewise.Options{})
		if err != nil {
			return false, ignoreEmpty(err)
		}
		return d.Match(v.text), nil
	case whole, fraction:
		if !all.limited {
			return true, nil
		}
		d, err := all.numbers.DFA(c.Budget)
		if err != nil {
			return false, ignoreEmpty(because(all.parts[0], "minimum", err))
		}
		return d.Match(numberText(v.text)), nil
	case list, object:
		if len(all.properties) > 0 || len(all.required) > 0 || len(all.first) > 0 || all.told() ||
			all.least > 0 || all.most >= 0 || all.leastKeys > 0 || all.mostKeys >= 0 {
			return false, refuse(all.parts[0], "enum", "lists and objects beside other keywords cannot be kept: leave those out")
		}
	}
	return true, nil
}

// told reports whether anything is said of properties that are not named.
func (all *combined) told() bool {
	return all.shut || len(all.names) > 0 || len(all.patterned) > 0 || all.unique || all.ended != nil ||
		slices.ContainsFunc(all.parts, func(p *value) bool { return p.get("additionalProperties") != nil })
}

func ignoreEmpty(err error) error {
	if errors.Is(err, bytewise.ErrEmpty) {
		return nil
	}
	return err
}

// write adds a value as it is, but for white space.
func (c *compiler) write(from, to pushdown.Place, v *value) error {
	switch v.kind {
	case 'a':
		return c.writeEach(from, to, "[]", len(v.items), func(at, next pushdown.Place, i int) error {
			return c.write(at, next, v.items[i])
		})
	case 'o':
		return c.writeEach(from, to, "{}", len(v.members), func(at, next pushdown.Place, i int) error {
			behind := c.Rules.Place()
			if err := c.key(pushdown.Always, at, behind, v.members[i].key); err != nil {
				return err
			}
			return c.write(behind, next, v.members[i].of)
		})
	}
	return c.literal(from, to, scalarText(v))
}

// writeEach adds n items with commas between them, within two marks.
func (c *compiler) writeEach(from, to pushdown.Place, marks string, n int, write func(at, next pushdown.Place, i int) error) error {
	at := c.Rules.Place()
	if err := c.token(from, at, marks[:1], false, true); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			next := c.Rules.Place()
			if err := c.token(at, next, ",", true, true); err != nil {
				return err
			}
			at = next
		}
		next := c.Rules.Place()
		if err := write(at, next, i); err != nil {
			return err
		}
		if at = next; c.Rules.Err() != nil {
			return c.Rules.Err()
		}
	}
	return c.token(at, to, marks[1:], true, false)
}

func sortedMembers(v *value) []member {
	out := slices.Clone(v.members)
	slices.SortFunc(out, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	return out
}

// numberText returns a number without a power of ten, as far as it has one that is not too large.
func numberText(text string) string {
	d, err := bytewise.ParseDecimal(text)
	if err != nil {
		return text
	}
	out := d.Whole
	if d.Negative {
		out = "-" + out
	}
	if d.Fraction != "" {
		out += "." + d.Fraction
	}
	return out
}

func isWhole(text string) bool {
	d, err := bytewise.ParseDecimal(text)
	return err == nil && d.Fraction == ""
}
