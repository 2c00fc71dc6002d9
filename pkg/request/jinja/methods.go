package jinja

import "slices"

// callable is what a method does when called.
type callable func(r *run, a args) value

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
	viewOf := func(kind string, items func(r *run) []value) callable {
		return func(r *run, a args) value {
			a.bind(name, "")
			return &List{items: items(r), kind: view, prefix: kind}
		}
	}
	switch name {
	case "items":
		return viewOf("dict_items", func(r *run) []value { return r.pairs(d) })
	case "keys":
		return viewOf("dict_keys", func(*run) []value { return d.keys })
	case "values":
		return viewOf("dict_values", func(*run) []value { return d.values })
	case "get":
		return func(r *run, a args) value {
			given := a.bind("get", "key default?")
			if v, ok := r.lookUp(d, given[0]); ok {
				return v
			}
			if given[1] == (absent{}) {
				return nil
			}
			return given[1]
		}
	case "copy":
		return func(r *run, _ args) value { return newDict(r, args{values: []value{d}}) }
	}
	return nil
}

func listMethod(l *List, name string) callable {
	switch name {
	case "index":
		return func(r *run, a args) value {
			places := r.places(l, a)
			if len(places) == 0 {
				panic(failf("index: the list does not have this item"))
			}
			return places[0]
		}
	case "count":
		return func(r *run, a args) value { return len(r.places(l, a)) }
	case "copy":
		return func(r *run, _ args) value {
			r.makeItems(len(l.items))
			return &List{items: slices.Clone(l.items), kind: l.kind}
		}
	}
	return nil
}

func (r *run) places(l *List, a args) (out []int) {
	given := a.bind("index or count", "value")
	for i, item := range l.items {
		if r.equal(item, given[0], 0) {
			out = append(out, i)
		}
	}
	return out
}
