package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// value is what a template computes with: nil (none), bool, int, float64, Text,
// *List, *Dict, *namespace, *loop, *function or undefined.
type value = any

// undefined is what is not there. It prints as nothing; most else that is done
// with it is an error.
type undefined struct{ why, name string } // why, or the name of a variable

func (u undefined) failure() failure {
	if u.name != "" {
		return failf("%q is undefined", u.name)
	}
	return failf("%s", u.why)
}

// namespace is an object whose attributes can be set.
type namespace struct{ vars map[string]value }

type function struct {
	name string
	call func(r *run, a args) value
}

type flavour uint8

const (
	list flavour = iota
	tuple
	// view is what dict.items and its like return: no subscripts, no JSON.
	view
	// generator is what filters such as map return: it can be gone through once.
	generator
)

// List is a list, or what is like one.
type List struct {
	items  []value
	kind   flavour
	prefix string // a view's name; a range as it prints
}

// NewList returns a list of what the constructors of this package make.
func NewList(items ...any) *List { return &List{items: items} }

// Items returns those of the list. They are not to be changed.
func (l *List) Items() []any { return l.items }

func newTuple(items ...value) *List { return &List{items: items, kind: tuple} }

// indexed reports whether the list has subscripts and a length.
func (l *List) indexed() bool { return l.kind == list || l.kind == tuple }

// Dict is a dictionary that keeps the order of its keys.
type Dict struct {
	keys, values []value
	at           map[value]int
}

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{at: map[value]int{}} }

// Set puts a value under a key of the template's own.
func (d *Dict) Set(key string, v any) { d.put(Inside(key), key, v) }

// Map returns the values of the keys that are strings.
func (d *Dict) Map() map[string]any {
	out := map[string]any{}
	for i, key := range d.keys {
		if t, ok := key.(Text); ok {
			out[t.s] = d.values[i]
		}
	}
	return out
}

// put sets the value of a key, of which hash is the hashed form.
func (d *Dict) put(key, hash, v value) {
	if i, ok := d.at[hash]; ok {
		d.values[i] = v
		return
	}
	d.at[hash] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, v)
}

// get returns the value of a key, false where there is none or it cannot be one.
func (d *Dict) get(key value) (value, bool) {
	if !hashable(key) {
		return nil, false
	}
	i, ok := d.at[hashed(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// hashable reports whether a value can be a key.
func hashable(v value) bool {
	_, text := v.(Text)
	return v == nil || text || isNumber(v)
}

// noneKey is the hashed form of none.
type noneKey struct{}

// hashed returns a key in a form that Go compares as Python does: 1, 1.0 and true are
// the same, and a text is its characters alone.
func hashed(v value) value {
	switch v := v.(type) {
	case nil:
		return noneKey{}
	case Text:
		return v.s
	case bool, int, float64:
		f, _ := number(v)
		if n, ok := v.(int); ok && float64(n) != f {
			return n
		}
		return f
	}
	panic(failf("%s cannot be a key", typeName(v)))
}

func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case bool:
		return "a boolean"
	case int:
		return "an integer"
	case float64:
		return "a float"
	case Text:
		return "a string"
	case *List:
		return [...]string{"a list", "a tuple", "a view", "a generator"}[v.kind]
	case *Dict:
		return "a dictionary"
	case *namespace:
		return "a namespace"
	case *loop:
		return "the loop"
	case undefined:
		return "an undefined value"
	}
	return "a function"
}

// truth is whether a value counts as true.
func truth(v value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case Text:
		return v.s != ""
	case *List:
		return v.kind == generator || len(v.items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

// number returns a value as a float, if it is a number; booleans are.
func number(v value) (float64, bool) {
	switch v := v.(type) {
	case bool:
		n, _ := whole(v)
		return float64(n), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// whole returns a value as an integer, if it is one; booleans are.
func whole(v value) (int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int:
		return v, true
	}
	return 0, false
}

// items returns what a loop over v goes through. A generator is empty afterwards.
func (r *run) items(v value) []value {
	switch v := v.(type) {
	case undefined:
		return nil
	case Text:
		return r.characters(v)
	case *Dict:
		r.step(1 + len(v.keys))
		return v.keys
	case *List:
		items := v.items
		if v.kind == generator {
			v.items = nil
		}
		r.step(1 + len(items))
		return items
	}
	panic(failf("%s cannot be gone through", typeName(v)))
}

func (r *run) characters(t Text) []value {
	r.makeItems(4 * len(t.s)) // an item and a Text each
	var out []value
	for i, c := range t.s {
		out = append(out, t.slice(i, i+utf8.RuneLen(c)))
	}
	return out
}

func (r *run) equal(a, b value, depth int) bool {
	r.goDown(depth)
	if x, ok := number(a); ok {
		y, ok := number(b)
		i, whole1 := whole(a)
		j, whole2 := whole(b)
		return ok && x == y && (!whole1 || !whole2 || i == j)
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case Text:
		b, ok := b.(Text)
		r.scan(len(a.s))
		return ok && a.s == b.s
	case *List:
		b, ok := b.(*List)
		return ok && (a == b || r.equalItems(a, b, depth))
	case *Dict:
		b, ok := b.(*Dict)
		return ok && r.equalEntries(a, b, depth)
	}
	return a == b
}

func (r *run) equalItems(a, b *List, depth int) bool {
	if !a.indexed() || a.kind != b.kind || len(a.items) != len(b.items) {
		return false
	}
	for i := range a.items {
		if !r.equal(a.items[i], b.items[i], depth+1) {
			return false
		}
	}
	return true
}

func (r *run) equalEntries(a, b *Dict, depth int) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for i, key := range a.keys {
		if other, ok := b.get(key); !ok || !r.equal(a.values[i], other, depth+1) {
			return false
		}
	}
	return true
}

// goDown is for looking into a value that lies so deep in another one.
func (r *run) goDown(depth int) {
	r.step(1)
	if depth > maxDepth {
		panic(failure{errDepth})
	}
}

// compare is below 0 if a < b, above if a > b.
func (r *run) compare(a, b value, depth int) int {
	r.goDown(depth)
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return compareNumbers(a, b, x, y)
		}
	}
	if x, ok := a.(Text); ok {
		if y, ok := b.(Text); ok {
			r.scan(min(len(x.s), len(y.s)))
			return strings.Compare(x.s, y.s)
		}
	}
	x, ok := a.(*List)
	y, also := b.(*List)
	if !ok || !also || !x.indexed() || x.kind != y.kind {
		panic(failf("%s and %s have no order", typeName(a), typeName(b)))
	}
	for i := range min(len(x.items), len(y.items)) {
		if !r.equal(x.items[i], y.items[i], depth) {
			return r.compare(x.items[i], y.items[i], depth+1)
		}
	}
	return len(x.items) - len(y.items)
}

// unordered is the result of comparing with NaN.
const unordered = math.MaxInt

func compareNumbers(a, b value, x, y float64) int {
	i, ok := whole(a)
	j, also := whole(b)
	switch {
	case ok && also:
		return slices.Compare([]int{i}, []int{j})
	case x < y:
		return -1
	case x > y:
		return 1
	case x == y:
		return 0
	}
	return unordered
}
