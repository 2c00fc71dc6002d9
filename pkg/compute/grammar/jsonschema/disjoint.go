package jsonschema

import "slices"

// maxOneOf bounds oneOf, whose schemas are compared with each other.
const maxOneOf = 128

// apart returns the schemas of oneOf, with what has to be absent so that no value is of two of them.
func (c *compiler) apart(all *combined, of []*value) ([]*value, error) {
	v := all.choices
	if len(of) > maxOneOf {
		return nil, refuse(v, "oneOf", "it has %d schemas; at most %d are allowed: use anyOf", len(of), maxOneOf)
	}
	flat, err := c.flattenEach(of)
	if err != nil {
		return nil, err
	}
	without := make([][]string, len(of))
	for i, a := range flat {
		for j, b := range flat[:i] {
			apart, err := c.disjointNow(a, b)
			if err != nil {
				return nil, err
			}
			if !apart && (!c.absentIn(all, &without[i], a, b) || !c.absentIn(all, &without[j], b, a)) {
				return nil, refuse(v, "oneOf", "a value may be of its schemas %d and %d: use anyOf, or give each a const of its own in a property that all require", j, i)
			}
		}
	}
	out := slices.Clone(of)
	for i, keys := range without {
		if len(keys) > 0 {
			out[i] = c.lacking(of[i], keys)
		}
	}
	return out, nil
}

// disjointNow is disjoint for schemas of which some may allow nothing.
func (c *compiler) disjointNow(a, b []*value) (bool, error) {
	if a == nil || b == nil {
		return true, nil
	}
	return c.disjoint(a, b, 0)
}

// flattenEach flattens each of some schemas; nil: it allows nothing.
func (c *compiler) flattenEach(of []*value) ([][]*value, error) {
	flat := make([][]*value, len(of))
	for i := range of {
		parts, never, err := c.flatten(of[i])
		if err != nil {
			return nil, err
		}
		if flat[i] = append([]*value{}, parts...); never {
			flat[i] = nil
		}
	}
	return flat, nil
}

// absentIn finds a property that objects of one schema need not have, and those of another one
// have to: without it no object is of both.
func (c *compiler) absentIn(all *combined, without *[]string, a, b []*value) bool {
	one, err1 := c.combine(a)
	other, err2 := c.combine(b)
	if err1 != nil || err2 != nil || all.types&one.possible()&other.possible() != object {
		return false
	}
	found := ""
	for _, p := range other.properties {
		if !other.required[p.key] || one.required[p.key] || all.required[p.key] {
			continue
		}
		named := slices.ContainsFunc(one.properties, func(q property) bool { return q.key == p.key })
		if !named || found == "" {
			if found = p.key; !named {
				break
			}
		}
	}
	if found != "" && !slices.Contains(*without, found) {
		*without = append(*without, found)
	}
	return found != ""
}

// lacking returns a schema without some properties.
func (c *compiler) lacking(v *value, keys []string) *value {
	names := &value{kind: 'a'}
	none := &value{kind: 'o'}
	for _, key := range keys {
		names.items = append(names.items, &value{kind: 's', text: key})
		none.members = append(none.members, member{key, &value{kind: 'b'}})
	}
	return c.make(v, "without", names, func() []member {
		return []member{{"allOf", &value{kind: 'a', items: []*value{v, {kind: 'o', pointer: v.pointer, members: []member{{"properties", none}}}}}}}
	})
}

// typeOf returns a literal's type.
func typeOf(v *value) types {
	switch v.kind {
	case '0':
		return null
	case 'b':
		return boolean
	case 's':
		return text
	case 'a':
		return list
	case 'o':
		return object
	}
	if isWhole(v.text) {
		return whole
	}
	return fraction
}

// disjoint reports whether no value can be of both, as far as types, literals and the properties
// that both require tell.
func (c *compiler) disjoint(a, b []*value, depth int) (bool, error) {
	if depth > 4 {
		return false, nil
	}
	one, err := c.combine(a)
	if err != nil {
		return false, err
	}
	other, err := c.combine(b)
	if err != nil {
		return false, err
	}
	if one.possible()&other.possible() == 0 || !one.shares(other) {
		return true, nil
	}
	if one.possible()&other.possible() != object {
		return false, nil
	}
	for _, p := range one.properties {
		for _, q := range other.properties {
			if p.key != q.key || !one.required[p.key] || !other.required[p.key] {
				continue
			}
			if apart, err := c.disjointProperties(p, q, depth); apart || err != nil {
				return apart, err
			}
		}
	}
	return false, nil
}

// disjointProperties is disjoint for what two schemas say of one property.
func (c *compiler) disjointProperties(p, q property, depth int) (bool, error) {
	x, none, err := c.flattenAll(p.of)
	if err != nil || none {
		return none, err
	}
	y, none, err := c.flattenAll(q.of)
	if err != nil || none {
		return none, err
	}
	return c.disjoint(x, y, depth+1)
}

// possible returns the types that a value may have.
func (all *combined) possible() types {
	if !all.listed {
		return all.types
	}
	var set types
	for _, v := range all.literals {
		set |= typeOf(v) & all.types
	}
	return set
}

// shares reports whether some literal may be of both.
func (all *combined) shares(other *combined) bool {
	if !all.listed || !other.listed {
		return true
	}
	known := map[string]bool{}
	for _, v := range all.literals {
		known[canonical(v)] = true
	}
	for _, v := range other.literals {
		if known[canonical(v)] {
			return true
		}
	}
	return false
}
