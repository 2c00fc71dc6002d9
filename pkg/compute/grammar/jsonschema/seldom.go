package jsonschema

import "slices"

// seldom are keywords that are kept in part, or where they say nothing.
var seldom map[string]func(*compiler, *combined, *value, member) error

func init() {
	seldom = map[string]func(*compiler, *combined, *value, member) error{
		"not": (*compiler).takeNot, "if": (*compiler).takeIf,
		"dependentRequired": (*compiler).takeDependents, "dependentSchemas": (*compiler).takeDependents, "dependencies": (*compiler).takeDependents,
		"contains": (*compiler).takeContains, "patternProperties": (*compiler).takePatterned, "propertyNames": (*compiler).takeNames,
		"unevaluatedProperties": (*compiler).takeUnevaluated, "unevaluatedItems": (*compiler).takeUnevaluated,
		"$dynamicRef": (*compiler).takeDynamic, "$recursiveRef": (*compiler).takeDynamic,
	}
}

// asserts are the keywords that say something of a value, beside seldom ones.
var asserts = []string{
	"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties", "additionalProperties", "required", "minProperties", "maxProperties",
	"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
}

// isAny reports whether a schema has nothing that says anything.
func isAny(v *value) bool {
	return v.kind == 'b' && v.yes || v.kind == 'o' && !slices.ContainsFunc(v.members, func(m member) bool {
		_, is := seldom[m.key]
		return is || slices.Contains(asserts, m.key)
	})
}

// isNone reports whether a schema allows nothing.
func isNone(v *value) bool {
	if v.kind == 'b' {
		return !v.yes
	}
	not := v.get("not")
	return not != nil && isAny(not)
}

// only returns the one keyword of a schema that says anything, if it has no other.
func only(v *value) (out member) {
	for _, m := range v.members {
		_, is := seldom[m.key]
		if !is && !slices.Contains(asserts, m.key) {
			continue
		}
		if out.key != "" {
			return member{}
		}
		out = m
	}
	return out
}

// takeNot takes a not that says nothing, allows nothing, or is of types or of one property.
func (c *compiler) takeNot(all *combined, p *value, m member) error {
	of := only(m.of)
	switch {
	case isAny(m.of):
		all.types = 0
		return nil
	case isNone(m.of):
		return nil
	case of.key == "type":
		set := &combined{types: anyType}
		if err := set.takeType(m.of, of.of); err != nil {
			return err
		}
		if set.types&(whole|fraction) != whole { // what is no integer may be a fraction
			all.types &^= set.types
			return nil
		}
	case of.key == "required" && len(of.of.items) == 1 && of.of.items[0].kind == 's':
		all.types &= object
		all.absent = append(all.absent, of.of.items[0].text)
		return nil
	}
	return refuse(p, m.key, "it cannot be kept: say what is allowed instead")
}

// takeIf takes an if that says nothing. then and else say nothing without one.
func (c *compiler) takeIf(_ *combined, p *value, m member) error {
	for _, key := range []string{"then", "else"} {
		if of := p.get(key); of != nil && !isAny(of) {
			return refuse(p, m.key, "it cannot be kept: use anyOf with both cases")
		}
	}
	return nil
}

// takeDependents makes what depends on a property a choice.
func (c *compiler) takeDependents(all *combined, p *value, m member) error {
	if m.of.kind != 'o' {
		return refuse(p, m.key, "it is an object")
	}
	for _, d := range m.of.members {
		if d.of.kind == 'a' && slices.ContainsFunc(d.of.items, func(v *value) bool { return v.kind != 's' }) {
			return refuse(p, m.key, "it has lists of names")
		}
		if !dependsOnNothing(d.of) && all.choices == nil {
			all.choices, all.choice = p, m.key
		}
	}
	return nil
}

func dependsOnNothing(of *value) bool {
	return of.kind == 'a' && len(of.items) == 0 || isAny(of)
}

// dependents returns the cases of what depends on properties: for the first one that anything depends
// on, that it is absent, or that it is there with what it needs. The others stay as they are.
func (c *compiler) dependents(p *value, keyword string, at *value) []*value {
	rest := &value{kind: 'o', pointer: at.pointer}
	var first member
	for _, m := range at.members {
		switch {
		case dependsOnNothing(m.of):
		case first.of == nil:
			first = m
		default:
			rest.members = append(rest.members, m)
		}
	}
	return []*value{
		c.make(p, keyword+" absent", rest, func() []member { return []member{{"properties", absent(first.key)}, {keyword, rest}} }),
		c.make(p, keyword+" there", rest, func() []member {
			names := &value{kind: 'a', items: []*value{{kind: 's', text: first.key}}}
			out := []member{{"required", names}, {keyword, rest}}
			if first.of.kind == 'a' {
				names.items = append(names.items, first.of.items...)
				return out
			}
			return append(out, member{"allOf", &value{kind: 'a', items: []*value{first.of}}})
		}),
	}
}

// make returns a schema that stands for what another one says, the same one each time.
func (c *compiler) make(p *value, what string, rest *value, build func() []member) *value {
	key := what + "\x00" + p.pointer + "\x00" + canonical(rest)
	v, ok := c.made[key]
	if !ok {
		v = &value{kind: 'o', pointer: p.pointer, members: build()}
		c.made[key] = v
	}
	return v
}

// absent returns properties of which one is not there.
func absent(key string) *value {
	return &value{kind: 'o', members: []member{{key, &value{kind: 'b'}}}}
}

// takeContains takes one that counts items, or says nothing.
func (c *compiler) takeContains(all *combined, p *value, m member) error {
	least, most := 1, -1
	for _, other := range p.members {
		var err error
		switch other.key {
		case "minContains":
			least, err = count(p, other)
		case "maxContains":
			most, err = count(p, other)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case isAny(m.of):
		all.least = max(all.least, least)
		if most >= 0 {
			all.most = atMost(all.most, most)
		}
		return nil
	case least == 0 && (most < 0 || isNone(m.of)):
		return nil
	}
	return refuse(p, m.key, "it cannot be kept: use items or prefixItems")
}

// maxPatterned bounds the patterns of names that hold of one object.
const maxPatterned = 4

func (c *compiler) takePatterned(all *combined, p *value, m member) error {
	if m.of.kind != 'o' {
		return refuse(p, m.key, "it is an object of schemas")
	}
	for _, of := range m.of.members {
		all.patterned = append(all.patterned, patterned{p, pattern{p, m.key, of.key}, of.of})
	}
	if len(all.patterned) > maxPatterned {
		return refuse(p, m.key, "there are %d patterns of names; at most %d are kept: name the properties", len(all.patterned), maxPatterned)
	}
	return nil
}

func (c *compiler) takeNames(all *combined, p *value, m member) error {
	if m.of.kind != 'o' && m.of.kind != 'b' {
		return refuse(p, m.key, "it is a schema")
	}
	all.names = append(all.names, m.of)
	return nil
}

// takeUnevaluated takes what holds of properties and items that a schema does not tell of, where
// all that holds of the value is a part of that schema.
func (c *compiler) takeUnevaluated(all *combined, p *value, m member) error {
	if isAny(m.of) {
		return nil
	}
	inside := !slices.ContainsFunc(all.parts, func(of *value) bool { return of != p && !of.within(p) })
	switch {
	case m.key == "unevaluatedProperties" && isNone(m.of) && inside:
		all.shut = true
		return nil
	case m.key == "unevaluatedItems" && len(all.parts) == 1 && p.get("contains") == nil:
		all.ended = m.of
		if !slices.Contains(all.first, p) {
			all.first = append(all.first, p)
		}
		return nil
	}
	return refuse(p, m.key, "it cannot be kept: use additionalProperties, or items with prefixItems, in a schema of its own")
}

func (c *compiler) takeDynamic(_ *combined, p *value, m member) error {
	return refuse(p, m.key, "it cannot be kept: use $ref")
}
