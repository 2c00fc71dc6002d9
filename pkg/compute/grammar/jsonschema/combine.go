package jsonschema

import (
	"errors"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
)

// types are a set of JSON's types; a number may be whole or not.
type types uint8

const (
	null types = 1 << iota
	boolean
	whole
	fraction
	text
	list
	object
	anyType = 1<<iota - 1
)

var typeNames = map[string]types{
	"null": null, "boolean": boolean, "integer": whole, "number": whole | fraction, "string": text, "array": list, "object": object,
}

// combined is what some schemas together say of one value.
type combined struct {
	parts    []*value
	types    types
	literals []*value // enum and const
	listed   bool     // only literals
	choices  *value   // one of the parts that has anyOf or oneOf yet; nil: none
	choice   string   // which of them

	properties []property
	required   map[string]bool
	names      []*value // propertyNames
	patterned  []patterned
	absent     []string // properties that may not be there
	shut       bool     // no properties are allowed that none of the schemas tells of
	leastKeys  int
	mostKeys   int

	first  []*value // the parts with prefixItems, or with items
	ended  *value   // what unevaluatedItems says of items that no other keyword tells of
	unique bool
	least  int // items
	most   int // or -1

	shortest, longest int // or -1
	patterns          []pattern
	numbers           bytewise.Numbers
	limited           bool // numbers say anything
}

// nothing is a schema that allows nothing.
var nothing = &value{kind: 'b'}

type property struct {
	key string
	of  []*value
}

// patterned is what patternProperties say of some names.
type patterned struct {
	part *value
	pattern
	of *value
}

type pattern struct {
	at      *value
	keyword string
	text    string
}

// combine joins schemas without references.
func (c *compiler) combine(parts []*value) (*combined, error) {
	all := &combined{parts: parts, types: anyType, required: map[string]bool{}, most: -1, mostKeys: -1, longest: -1}
	for _, p := range parts {
		for _, m := range p.members {
			if err := c.take(all, p, m); err != nil {
				return nil, err
			}
		}
	}
	return all, c.combineProperties(all)
}

// take adds one keyword.
func (c *compiler) take(all *combined, p *value, m member) (err error) {
	if take, ok := seldom[m.key]; ok {
		return take(c, all, p, m)
	}
	switch m.key {
	case "type":
		return all.takeType(p, m.of)
	case "enum", "const":
		return all.takeLiterals(p, m)
	case "anyOf", "oneOf":
		if m.of.kind != 'a' || len(m.of.items) == 0 {
			return refuse(p, m.key, "it is a list of schemas")
		}
		if all.choices == nil {
			all.choices, all.choice = p, m.key
		}
	case "properties", "required", "minProperties", "maxProperties":
		return c.takeObject(all, p, m)
	case "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems":
		return c.takeList(all, p, m)
	case "minLength", "maxLength", "pattern", "format":
		return all.takeText(p, m)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return all.takeNumber(p, m)
	}
	return nil
}

func (all *combined) takeType(p, of *value) error {
	names := []*value{of}
	if of.kind == 'a' {
		names = of.items
	}
	var set types
	for _, name := range names {
		t, ok := typeNames[name.text]
		if name.kind != 's' || !ok {
			return refuse(p, "type", "%.40q is none of null, boolean, integer, number, string, array, object", name.text)
		}
		set |= t
	}
	all.types &= set
	return nil
}

func (all *combined) takeLiterals(p *value, m member) error {
	some := []*value{m.of}
	if m.key == "enum" {
		if some = m.of.items; m.of.kind != 'a' || len(some) == 0 {
			return refuse(p, "enum", "it is a list of values, with one at least")
		}
	}
	if !all.listed {
		all.literals, all.listed = some, true
		return nil
	}
	known := map[string]bool{}
	for _, v := range some {
		known[canonical(v)] = true
	}
	all.literals = slices.DeleteFunc(slices.Clone(all.literals), func(v *value) bool { return !known[canonical(v)] })
	return nil
}

// count reads a number of things.
func count(p *value, m member) (int, error) {
	d, err := bytewise.ParseDecimal(m.of.text)
	if m.of.kind != 'n' || err != nil || d.Negative || d.Fraction != "" {
		return 0, refuse(p, m.key, "it is a whole number from 0 on")
	}
	n, err := strconv.Atoi(d.Whole)
	if err != nil || n > maxCount {
		return maxCount + 1, nil // more than any text has
	}
	return n, nil
}

const maxCount = 1 << 30

// atMost joins two bounds, of which -1 is none.
func atMost(a, b int) int {
	if a < 0 {
		return b
	}
	return min(a, b)
}

func (c *compiler) takeObject(all *combined, p *value, m member) error {
	switch m.key {
	case "properties":
		return all.takeProperties(p, m)
	case "required":
		return all.takeRequired(p, m)
	}
	n, err := count(p, m)
	if err != nil {
		return err
	}
	if m.key == "minProperties" {
		all.leastKeys = max(all.leastKeys, n)
	} else {
		all.mostKeys = atMost(all.mostKeys, n)
	}
	return nil
}

// takeProperties takes those that say that they are required, as draft 3 has it.
func (all *combined) takeProperties(p *value, m member) error {
	if m.of.kind != 'o' {
		return refuse(p, m.key, "it is an object of schemas")
	}
	for _, of := range m.of.members {
		if is := of.of.get("required"); is != nil && is.yes {
			all.required[of.key] = true
		}
	}
	return nil
}

func (all *combined) takeRequired(p *value, m member) error {
	if m.of.kind == 'b' { // draft 3 says it to the object around
		return nil
	}
	if m.of.kind != 'a' {
		return refuse(p, m.key, "it is a list of names")
	}
	for _, name := range m.of.items {
		if name.kind != 's' {
			return refuse(p, m.key, "it is a list of names")
		}
		all.required[name.text] = true
	}
	return nil
}

func (c *compiler) takeList(all *combined, p *value, m member) error {
	switch m.key {
	case "items", "prefixItems", "additionalItems":
		if m.key == "prefixItems" && m.of.kind != 'a' {
			return refuse(p, m.key, "it is a list of schemas")
		}
		if !slices.Contains(all.first, p) {
			all.first = append(all.first, p)
		}
		return nil
	case "uniqueItems":
		all.unique = all.unique || m.of.yes
		return nil
	}
	n, err := count(p, m)
	if err != nil {
		return err
	}
	if m.key == "minItems" {
		all.least = max(all.least, n)
	} else {
		all.most = atMost(all.most, n)
	}
	return nil
}

func (all *combined) takeText(p *value, m member) error {
	if m.key == "pattern" || m.key == "format" {
		if m.of.kind != 's' {
			return refuse(p, m.key, "it is a string")
		}
		all.patterns = append(all.patterns, pattern{p, m.key, m.of.text})
		return nil
	}
	n, err := count(p, m)
	if err != nil {
		return err
	}
	if m.key == "minLength" {
		all.shortest = max(all.shortest, n)
	} else {
		all.longest = atMost(all.longest, n)
	}
	return nil
}

// isExclusive reports whether a bound is: by its name, or by what draft 4 and OpenAPI 3.0 have beside it.
func isExclusive(p *value, m member) bool {
	of := p.get(map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[m.key])
	return of != nil && of.yes || m.key == "exclusiveMinimum" || m.key == "exclusiveMaximum"
}

func (all *combined) takeNumber(p *value, m member) error {
	exclusive := isExclusive(p, m)
	if exclusive && m.of.kind == 'b' {
		return nil
	}
	d, err := bytewise.ParseDecimal(m.of.text)
	if m.of.kind != 'n' {
		err = errors.New("it is a number")
	} else if inner, ok := bytewise.Within(m.of.text, m.key == "minimum" || m.key == "exclusiveMinimum"); err != nil && ok && m.key != "multipleOf" {
		d, err = inner, nil
	}
	if err != nil {
		return refuse(p, m.key, "%v", err)
	}
	all.limited = true
	b := &bytewise.Bound{Decimal: d, Exclusive: exclusive}
	switch m.key {
	case "minimum", "exclusiveMinimum":
		if low := all.numbers.Low; low == nil || d.Compare(low.Decimal) > 0 || d == low.Decimal && b.Exclusive {
			all.numbers.Low = b
		}
	case "maximum", "exclusiveMaximum":
		if high := all.numbers.High; high == nil || d.Compare(high.Decimal) < 0 || d == high.Decimal && b.Exclusive {
			all.numbers.High = b
		}
	default:
		if of := all.numbers.MultipleOf; of != nil && *of != d {
			return refuse(p, m.key, "of two schemas it is another: give the least common multiple in one of them")
		}
		all.numbers.MultipleOf = &d
	}
	return nil
}

// combineProperties finds what holds of each property: where a schema does not name it, that
// schema's additionalProperties.
func (c *compiler) combineProperties(all *combined) error {
	all.nameProperties()
	if c.steps -= len(all.parts) * (len(all.properties) + 1); c.steps < 0 {
		return refuse(all.parts[0], "allOf", "there are too many properties in too many schemas together: ask for less")
	}
	for _, p := range all.parts {
		if err := c.fillProperties(all, p); err != nil {
			return err
		}
	}
	for i := range all.properties {
		p := &all.properties[i]
		if slices.Contains(all.absent, p.key) || all.shut && len(p.of) == 0 {
			p.of = append(p.of, nothing)
		}
	}
	return nil
}

// nameProperties lists the properties that schemas name, and then those that they only require.
func (all *combined) nameProperties() {
	known := map[string]bool{}
	add := func(key string) {
		if !known[key] {
			known[key] = true
			all.properties = append(all.properties, property{key: key})
		}
	}
	for _, p := range all.parts {
		if named := p.get("properties"); named != nil {
			for _, m := range named.members {
				add(m.key)
			}
		}
	}
	for _, p := range all.parts {
		if names := p.get("required"); names != nil {
			for _, name := range names.items {
				add(name.text)
			}
		}
	}
	for _, name := range all.absent {
		add(name)
	}
}

// fillProperties adds what a schema says of each property.
func (c *compiler) fillProperties(all *combined, p *value) error {
	named, further := map[string]*value{}, p.get("additionalProperties")
	if of := p.get("properties"); of != nil {
		for _, m := range of.members {
			named[m.key] = m.of
		}
	}
	for i := range all.properties {
		property := &all.properties[i]
		matched, err := c.matching(all, p, property.key)
		if err != nil {
			return err
		}
		property.of = append(property.of, matched...)
		if of := named[property.key]; of != nil {
			property.of = append(property.of, of)
		} else if further != nil && len(matched) == 0 {
			property.of = append(property.of, further)
		}
	}
	return nil
}

// item returns what holds of an item of a list.
func (all *combined) item(i int) (of []*value) {
	for _, p := range all.first {
		prefix, rest := p.get("prefixItems"), p.get("items")
		if rest != nil && rest.kind == 'a' { // as drafts before 2020-12 have it
			prefix, rest = rest, p.get("additionalItems")
		}
		switch {
		case prefix != nil && i < len(prefix.items):
			of = append(of, prefix.items[i])
		case rest != nil:
			of = append(of, rest)
		}
	}
	if all.ended != nil && len(of) == 0 {
		return []*value{all.ended}
	}
	return of
}

// firstItems returns how many items have schemas of their own.
func (all *combined) firstItems() (n int) {
	for _, p := range all.first {
		for _, key := range []string{"prefixItems", "items"} {
			if of := p.get(key); of != nil {
				n = max(n, len(of.items))
			}
		}
	}
	return n
}
