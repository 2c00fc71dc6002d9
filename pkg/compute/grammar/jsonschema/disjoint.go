package jsonschema

// typeOf is a literal's type.
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

// disjoint says whether no value can be of both, as far as types, literals and the properties
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

// possible are the types that a value may have.
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

// shares says whether some literal may be of both.
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
