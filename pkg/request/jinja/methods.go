package jinja

import (
	"errors"
	"slices"
)

// callable is what a method does when called.
type callable func(r *run, a args) (value, error)

// method finds the method of a value; nil if it has none of that name. Those that
// would change a list or dictionary are not there, as in Jinja's sandbox.
func method(v value, name string) callable {
	switch v := v.(type) {
	case Text:
		return textMethodNamed(v, name)
	case *Dict:
		return dictMethod(v, name)
	case *List:
		if v.indexed() {
			return listMethod(v, name)
		}
	}
	return nil
}

func dictMethod(d *Dict, name string) callable {
	viewOf := func(kind string, items func(r *run) ([]value, error)) callable {
		return func(r *run, a args) (value, error) {
			if _, err := a.bind(name, ""); err != nil {
				return nil, err
			}
			out, err := items(r)
			return &List{items: out, kind: view, prefix: kind}, err
		}
	}
	switch name {
	case "items":
		return viewOf("dict_items", func(r *run) ([]value, error) { return r.pairs(d) })
	case "keys":
		return viewOf("dict_keys", func(*run) ([]value, error) { return d.keys, nil })
	case "values":
		return viewOf("dict_values", func(*run) ([]value, error) { return d.values, nil })
	case "get":
		return func(r *run, a args) (value, error) {
			given, err := a.bind("get", "key default?")
			if err != nil {
				return nil, err
			}
			if v, ok, err := r.lookUp(d, given[0]); ok || err != nil {
				return v, err
			}
			if given[1] == (absent{}) {
				return nil, nil
			}
			return given[1], nil
		}
	case "copy":
		return func(r *run, _ args) (value, error) { return newDict(r, args{values: []value{d}}) }
	}
	return nil
}

func listMethod(l *List, name string) callable {
	switch name {
	case "index":
		return func(r *run, a args) (value, error) {
			places, err := r.places(l, a)
			if err == nil && len(places) == 0 {
				err = errors.New("index: the list does not have this item")
			}
			if err != nil {
				return nil, err
			}
			return places[0], nil
		}
	case "count":
		return func(r *run, a args) (value, error) {
			places, err := r.places(l, a)
			return len(places), err
		}
	case "copy":
		return func(r *run, _ args) (value, error) {
			return &List{items: slices.Clone(l.items), kind: l.kind}, r.makeItems(len(l.items))
		}
	}
	return nil
}

// places are where an item is in a list.
func (r *run) places(l *List, a args) (out []int, err error) {
	given, err := a.bind("index or count", "value")
	if err != nil {
		return nil, err
	}
	for i, item := range l.items {
		same, err := r.equal(item, given[0], 0)
		if err != nil {
			return nil, err
		}
		if same {
			out = append(out, i)
		}
	}
	return out, nil
}
