package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func listFilterNamed(name string) filter {
	switch name {
	case "count", "length":
		return length
	case "dictsort":
		return dictSort
	case "first", "last":
		return func(r *run, v value, _ args) (value, error) { return r.endOf(v, name == "last") }
	case "items":
		return itemsFilter
	case "join":
		return join
	case "list":
		return func(r *run, v value, _ args) (value, error) { return r.listed(v) }
	case "map":
		return mapFilter
	case "max", "min":
		return func(r *run, v value, a args) (value, error) { return r.extreme(v, name == "max", a) }
	case "select", "reject":
		return func(r *run, v value, a args) (value, error) { return r.choose(v, false, name == "reject", a) }
	case "selectattr", "rejectattr":
		return func(r *run, v value, a args) (value, error) { return r.choose(v, true, name == "rejectattr", a) }
	case "reverse":
		return reverse
	case "sort":
		return sortFilter
	case "sum":
		return sum
	case "unique":
		return unique
	}
	return nil
}

func length(r *run, v value, _ args) (value, error) {
	switch v := v.(type) {
	case undefined:
		return 0, nil
	case Text:
		return utf8.RuneCountInString(v.s), r.scan(len(v.s))
	case *Dict:
		return len(v.keys), nil
	case *List:
		if v.kind != generator {
			return len(v.items), nil
		}
	}
	return nil, fmt.Errorf("%s has no length", typeName(v))
}

func (r *run) endOf(v value, last bool) (value, error) {
	if l, ok := v.(*List); ok && l.kind == generator && !last && len(l.items) > 0 {
		first := l.items[0] // the rest stays
		l.items = l.items[1:]
		return first, nil
	}
	items, err := r.items(v)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return undefined{why: "there is no first or last item"}, nil
	case last:
		return items[len(items)-1], nil
	}
	return items[0], nil
}

func (r *run) listed(v value) (value, error) {
	items, err := r.items(v)
	if err == nil {
		err = r.makeItems(len(items))
	}
	return NewList(slices.Clone(items)...), err
}

func reverse(r *run, v value, _ args) (value, error) {
	if t, ok := v.(Text); ok {
		return r.sliceText(t, [3]value{nil, nil, -1})
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	return &List{items: out, kind: generator}, r.makeItems(len(out))
}

func itemsFilter(r *run, v value, _ args) (value, error) {
	switch v := v.(type) {
	case undefined:
		return &List{kind: generator}, nil
	case *Dict:
		pairs, err := r.pairs(v)
		return &List{items: pairs, kind: generator}, err
	}
	return nil, fmt.Errorf("%s has no items", typeName(v))
}

// pairs are a dictionary's keys with their values.
func (r *run) pairs(d *Dict) ([]value, error) {
	if err := r.makeItems(6 * len(d.keys)); err != nil {
		return nil, err
	}
	out := make([]value, len(d.keys))
	for i := range out {
		out[i] = newTuple(d.keys[i], d.values[i])
	}
	return out, nil
}

// getter reads an attribute such as "a.b" or 0 of an item; "" is the item itself.
func (r *run) getter(path value) (func(value) (value, error), error) {
	if n, ok := whole(path); ok {
		path = Inside(strconv.Itoa(n))
	}
	t, ok := path.(Text)
	if !ok {
		return nil, errors.New("attribute is no string")
	}
	parts, err := r.cutAt(t.s, ".")
	if err != nil {
		return nil, err
	}
	return func(v value) (value, error) {
		for _, part := range parts {
			var key value = Inside(part)
			if n, err := strconv.Atoi(part); err == nil {
				key = n
			}
			var err error
			if v, err = r.item(v, key); err != nil {
				return nil, err
			}
		}
		return v, nil
	}, nil
}

// cutAt are the parts of the path of an attribute.
func (r *run) cutAt(path, separator string) ([]string, error) {
	if err := r.makeItems(pathItems * (1 + strings.Count(path, separator))); err != nil {
		return nil, err
	}
	return strings.Split(path, separator), nil
}

// keyed is a function that items are ordered by: an attribute, or several with
// commas between them, strings without their case unless that counts.
func (r *run) keyed(attribute value, caseCounts bool) (func(value) (value, error), error) {
	gets, err := r.getters(attribute)
	if err != nil {
		return nil, err
	}
	return func(v value) (value, error) {
		if len(gets) == 0 {
			return r.folded(v, caseCounts)
		}
		key := newTuple()
		for _, get := range gets {
			k, err := get(v)
			if err == nil {
				k, err = r.folded(k, caseCounts)
			}
			if err != nil {
				return nil, err
			}
			key.items = append(key.items, k)
		}
		if len(gets) == 1 {
			return key.items[0], nil
		}
		return key, nil
	}, nil
}

// getters are those of attributes with commas between them.
func (r *run) getters(attribute value) (out []func(value) (value, error), err error) {
	if attribute == nil || attribute == (absent{}) {
		return nil, nil
	}
	paths := []value{attribute}
	if t, ok := attribute.(Text); ok {
		parts, err := r.cutAt(t.s, ",")
		if err != nil {
			return nil, err
		}
		paths = nil
		for _, p := range parts {
			paths = append(paths, Inside(p))
		}
	}
	for _, p := range paths {
		get, err := r.getter(p)
		if err != nil {
			return nil, err
		}
		out = append(out, get)
	}
	return out, nil
}

// folded is a string without its case, unless that counts; anything else as it is.
func (r *run) folded(v value, caseCounts bool) (value, error) {
	t, ok := v.(Text)
	if !ok || caseCounts {
		return v, nil
	}
	if err := r.make(len(t.s)); err != nil {
		return nil, err
	}
	return t.as(strings.ToLower(t.s)), nil
}

// keysOf are the keys of items.
func (r *run) keysOf(items []value, attribute value, caseCounts bool) ([]value, error) {
	key, err := r.keyed(attribute, caseCounts)
	if err == nil {
		err = r.makeItems(2 * len(items))
	}
	if err != nil {
		return nil, err
	}
	out := make([]value, len(items))
	for i, v := range items {
		if out[i], err = key(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// order is the places of keys in ascending order.
func (r *run) order(keys []value, down bool) (order []int, failed error) {
	order = make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if down {
			i, j = j, i
		}
		c, err := r.compare(keys[i], keys[j], 0)
		failed = firstOf(failed, err)
		return c
	})
	return order, failed
}

func (r *run) sorted(items []value, attribute value, caseCounts, down bool) (value, error) {
	keys, err := r.keysOf(items, attribute, caseCounts)
	if err != nil {
		return nil, err
	}
	order, err := r.order(keys, down)
	out := make([]value, len(items))
	for i, at := range order {
		out[i] = items[at]
	}
	return NewList(out...), err
}

func sortFilter(r *run, v value, a args) (value, error) {
	given, err := a.bind("sort", "reverse? case_sensitive? attribute?")
	if err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	return r.sorted(items, given[2], flag(given[1]), flag(given[0]))
}

func dictSort(r *run, v value, a args) (value, error) {
	given, err := a.bind("dictsort", "case_sensitive? by? reverse?")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("%s is no dictionary", typeName(v))
	}
	by, err := texts(given[1], "key")
	if err != nil || by.s != "key" && by.s != "value" {
		return nil, errors.New("by is not key or value")
	}
	pairs, err := r.pairs(d)
	if err != nil {
		return nil, err
	}
	place := map[string]int{"key": 0, "value": 1}[by.s]
	return r.sorted(pairs, place, flag(given[0]), flag(given[2]))
}
