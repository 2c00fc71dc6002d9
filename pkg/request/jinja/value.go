package jinja

import (
	"errors"
	"fmt"
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

func (u undefined) error() error {
	if u.name != "" {
		return fmt.Errorf("%q is undefined", u.name)
	}
	return errors.New(u.why)
}

// namespace is an object whose attributes can be set.
type namespace struct{ vars map[string]value }

// function is what can be called.
type function struct {
	name string
	call func(r *run, a args) (value, error)
}

// flavour tells lists apart.
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

// NewList is a list of what the constructors of this package make.
func NewList(items ...any) *List { return &List{items: items} }

// Items are those of the list. They are not to be changed.
func (l *List) Items() []any { return l.items }

func newTuple(items ...value) *List { return &List{items: items, kind: tuple} }

// indexed says whether the list has subscripts and a length.
func (l *List) indexed() bool { return l.kind == list || l.kind == tuple }

// Dict is a dictionary that keeps the order of its keys.
type Dict struct {
	keys, values []value
	at           map[value]int
}

// NewDict is an empty dictionary.
func NewDict() *Dict { return &Dict{at: map[value]int{}} }

// Set puts a value under a key of the template's own.
func (d *Dict) Set(key string, v any) { d.put(Inside(key), key, v) }

// Map is the values of the keys that are strings.
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

// get is the value of a key, false where there is none or it cannot be one.
func (d *Dict) get(key value) (value, bool) {
	h, err := hashed(key)
	if err != nil {
		return nil, false
	}
	i, ok := d.at[h]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// noneKey is the hashed form of none.
type noneKey struct{}

// hashed is a key in a form that Go compares as Python does: 1, 1.0 and true are
// the same, and a text is its characters alone.
func hashed(v value) (value, error) {
	switch v := v.(type) {
	case nil:
		return noneKey{}, nil
	case Text:
		return v.s, nil
	case bool, int, float64:
		f, _ := number(v)
		if n, ok := v.(int); ok && float64(n) != f {
			return n, nil
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s cannot be a key", typeName(v))
}

// typeName is how errors call a value.
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

// number is a value as a float, if it is a number; booleans are.
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

// whole is a value as an integer, if it is one; booleans are.
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

// items is what a loop over v goes through. A generator is empty afterwards.
func (r *run) items(v value) ([]value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, nil
	case Text:
		return r.characters(v)
	case *Dict:
		return v.keys, r.step(1 + len(v.keys))
	case *List:
		items := v.items
		if v.kind == generator {
			v.items = nil
		}
		return items, r.step(1 + len(items))
	}
	return nil, fmt.Errorf("%s cannot be gone through", typeName(v))
}

func (r *run) characters(t Text) ([]value, error) {
	if err := r.makeItems(4 * len(t.s)); err != nil { // an item and a Text each
		return nil, err
	}
	var out []value
	for i, c := range t.s {
		out = append(out, t.slice(i, i+utf8.RuneLen(c)))
	}
	return out, nil
}

// equal is Python's ==.
func (r *run) equal(a, b value, depth int) (bool, error) {
	if err := r.step(1); err != nil || depth > maxDepth {
		return false, errors.Join(err, errDepth)
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		i, whole1 := whole(a)
		j, whole2 := whole(b)
		return ok && x == y && (!whole1 || !whole2 || i == j), nil
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case Text:
		b, ok := b.(Text)
		return ok && a.s == b.s, r.scan(len(a.s))
	case *List:
		b, ok := b.(*List)
		if !ok || a == b || !a.indexed() || a.kind != b.kind || len(a.items) != len(b.items) {
			return ok && a == b, nil
		}
		return r.allEqual(a.items, b.items, depth)
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false, nil
		}
		return r.equalDicts(a, b, depth)
	}
	return a == b, nil
}

func (r *run) allEqual(a, b []value, depth int) (bool, error) {
	for i := range a {
		if same, err := r.equal(a[i], b[i], depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *Dict, depth int) (bool, error) {
	for i, key := range a.keys {
		other, ok := b.get(key)
		if !ok {
			return false, nil
		}
		if same, err := r.equal(a.values[i], other, depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// compare is below 0 if a < b, above if a > b.
func (r *run) compare(a, b value, depth int) (int, error) {
	if err := r.step(1); err != nil || depth > maxDepth {
		return 0, errors.Join(err, errDepth)
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return compareNumbers(a, b, x, y), nil
		}
	}
	if x, ok := a.(Text); ok {
		if y, ok := b.(Text); ok {
			return strings.Compare(x.s, y.s), r.scan(min(len(x.s), len(y.s)))
		}
	}
	x, ok := a.(*List)
	y, also := b.(*List)
	if !ok || !also || !x.indexed() || x.kind != y.kind {
		return 0, fmt.Errorf("%s and %s have no order", typeName(a), typeName(b))
	}
	for i := range min(len(x.items), len(y.items)) {
		if same, err := r.equal(x.items[i], y.items[i], depth); err != nil || !same {
			if err != nil {
				return 0, err
			}
			return r.compare(x.items[i], y.items[i], depth+1)
		}
	}
	return len(x.items) - len(y.items), nil
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
