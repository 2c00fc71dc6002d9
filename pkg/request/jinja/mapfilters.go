package jinja

import (
	"errors"
	"fmt"
)

// mapFilter is map(attribute=…, default=…) or map(filter, arguments…).
func mapFilter(r *run, v value, a args) (value, error) {
	apply, err := r.mapping(a)
	if err != nil {
		return nil, err
	}
	items, err := r.itemsIfAny(v)
	if err == nil {
		err = r.makeItems(len(items))
	}
	if err != nil {
		return nil, err
	}
	out := make([]value, len(items))
	for i, item := range items {
		if out[i], err = apply(item); err != nil {
			return nil, err
		}
	}
	return &List{items: out, kind: generator}, nil
}

// itemsIfAny is items, none for whatever counts as false.
func (r *run) itemsIfAny(v value) ([]value, error) {
	if !truth(v) {
		return nil, nil
	}
	return r.items(v)
}

func (r *run) mapping(a args) (func(value) (value, error), error) {
	if len(a.values) == 0 {
		given, err := a.bind("map", "attribute default?")
		if err != nil {
			return nil, err
		}
		get, err := r.getter(given[0])
		if err != nil {
			return nil, err
		}
		return func(v value) (value, error) {
			out, err := get(v)
			if _, missing := out.(undefined); missing && given[1] != (absent{}) {
				return given[1], nil
			}
			return out, err
		}, nil
	}
	name, ok := a.values[0].(Text)
	if !ok {
		return nil, errors.New("a filter's name is no string")
	}
	return func(v value) (value, error) {
		return r.filter(name.s, v, args{a.values[1:], a.names, a.named})
	}, nil
}

// choose is select(test, arguments…), or selectattr(attribute, test, arguments…).
func (r *run) choose(v value, byAttribute, reject bool, a args) (value, error) {
	get := func(v value) (value, error) { return v, nil }
	if byAttribute {
		if len(a.values) == 0 {
			return nil, errors.New("an attribute is missing")
		}
		var err error
		if get, err = r.getter(a.values[0]); err != nil {
			return nil, err
		}
		a.values = a.values[1:]
	}
	holds, err := r.testing(a)
	if err != nil {
		return nil, err
	}
	items, err := r.itemsIfAny(v)
	if err == nil {
		err = r.makeItems(len(items))
	}
	if err != nil {
		return nil, err
	}
	out := &List{kind: generator}
	for _, item := range items {
		part, err := get(item)
		if err != nil {
			return nil, err
		}
		ok, err := holds(part)
		if err != nil {
			return nil, err
		}
		if ok != reject {
			out.items = append(out.items, item)
		}
	}
	return out, nil
}

// testing is a test by name with arguments; without any, whether a value counts as true.
func (r *run) testing(a args) (func(value) (bool, error), error) {
	if len(a.values) == 0 {
		return func(v value) (bool, error) { return truth(v), nil }, nil
	}
	name, ok := a.values[0].(Text)
	if !ok {
		return nil, errors.New("a test's name is no string")
	}
	return func(v value) (bool, error) {
		return r.test(name.s, v, args{a.values[1:], a.names, a.named})
	}, nil
}

// join is join(d=”, attribute=None).
func join(r *run, v value, a args) (value, error) {
	given, err := a.bind("join", "d? attribute?")
	if err != nil {
		return nil, err
	}
	var between Text
	if given[0] != (absent{}) {
		if between, err = r.str(given[0]); err != nil {
			return nil, err
		}
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if given[1] != (absent{}) && given[1] != nil {
		if items, err = r.keysOf(items, given[1], true); err != nil {
			return nil, err
		}
	}
	var w textWriter
	for i, item := range items {
		if i > 0 {
			if err := r.put(&w, between); err != nil {
				return nil, err
			}
		}
		if err := r.putValue(&w, item); err != nil {
			return nil, err
		}
	}
	return w.text(), nil
}

// sum is sum(attribute=None, start=0).
func sum(r *run, v value, a args) (value, error) {
	given, err := a.bind("sum", "attribute? start?")
	if err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	if given[0] != (absent{}) && given[0] != nil {
		if items, err = r.keysOf(items, given[0], true); err != nil {
			return nil, err
		}
	}
	total := value(0)
	if given[1] != (absent{}) {
		total = given[1]
	}
	if _, ok := total.(Text); ok {
		return nil, errors.New("strings are not added up: use the filter join")
	}
	for _, item := range items {
		if total, err = r.binary("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// itemsByKey are the items of a value, with what the arguments of a filter,
// case_sensitive=False and attribute=None, compare them by.
func (r *run) itemsByKey(of string, v value, a args) (items, keys []value, err error) {
	given, err := a.bind(of, "case_sensitive? attribute?")
	if err != nil {
		return nil, nil, err
	}
	if items, err = r.items(v); err != nil {
		return nil, nil, err
	}
	keys, err = r.keysOf(items, given[1], flag(given[0]))
	return items, keys, err
}

// unique is unique(case_sensitive=False, attribute=None): the first of each.
func unique(r *run, v value, a args) (value, error) {
	items, keys, err := r.itemsByKey("unique", v, a)
	if err != nil {
		return nil, err
	}
	seen, out := NewDict(), &List{kind: generator}
	for i, key := range keys {
		_, there, err := r.lookUp(seen, key)
		if err == nil && !there {
			err = r.putKey(seen, key, nil)
		}
		if err != nil {
			return nil, err
		}
		if !there {
			out.items = append(out.items, items[i])
		}
	}
	return out, nil
}

// extreme is max(case_sensitive=False, attribute=None), or min.
func (r *run) extreme(v value, most bool, a args) (value, error) {
	items, keys, err := r.itemsByKey("max or min", v, a)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return undefined{why: "there are no items"}, nil
	}
	best := 0
	for i := 1; i < len(keys); i++ {
		c, err := r.compare(keys[i], keys[best], 0)
		if err != nil {
			return nil, fmt.Errorf("max or min: %w", err)
		}
		if c != unordered && (most && c > 0 || !most && c < 0) {
			best = i
		}
	}
	return items[best], nil
}
