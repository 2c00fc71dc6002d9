package jinja

// mapFilter is map(attribute=…, default=…) or map(filter, arguments…).
func mapFilter(r *run, v value, a args) value {
	apply := r.mapping(a)
	items := r.itemsIfAny(v)
	r.makeItems(len(items))
	out := make([]value, len(items))
	for i, item := range items {
		out[i] = apply(item)
	}
	return &List{items: out, kind: generator}
}

// itemsIfAny is items, none for whatever counts as false.
func (r *run) itemsIfAny(v value) []value {
	if !truth(v) {
		return nil
	}
	return r.items(v)
}

func (r *run) mapping(a args) func(value) value {
	if len(a.values) == 0 {
		given := a.bind("map", "attribute default?")
		get := r.getter(given[0])
		return func(v value) value {
			out := get(v)
			if _, missing := out.(undefined); missing && given[1] != (absent{}) {
				return given[1]
			}
			return out
		}
	}
	name, ok := a.values[0].(Text)
	if !ok {
		panic(failf("a filter's name is no string"))
	}
	return func(v value) value {
		return r.filter(name.s, v, args{a.values[1:], a.names, a.named})
	}
}

// choose is select(test, arguments…), or selectattr(attribute, test, arguments…).
func (r *run) choose(v value, byAttribute, reject bool, a args) value {
	get := func(v value) value { return v }
	if byAttribute {
		if len(a.values) == 0 {
			panic(failf("an attribute is missing"))
		}
		get = r.getter(a.values[0])
		a.values = a.values[1:]
	}
	holds := r.testing(a)
	items := r.itemsIfAny(v)
	r.makeItems(len(items))
	out := &List{kind: generator}
	for _, item := range items {
		if holds(get(item)) != reject {
			out.items = append(out.items, item)
		}
	}
	return out
}

// testing returns a test by name with arguments; without any, whether a value counts as true.
func (r *run) testing(a args) func(value) bool {
	if len(a.values) == 0 {
		return truth
	}
	name, ok := a.values[0].(Text)
	if !ok {
		panic(failf("a test's name is no string"))
	}
	return func(v value) bool {
		return r.test(name.s, v, args{a.values[1:], a.names, a.named})
	}
}

// join is join(d=”, attribute=None).
func join(r *run, v value, a args) value {
	given := a.bind("join", "d? attribute?")
	var between Text
	if given[0] != (absent{}) {
		between = r.str(given[0])
	}
	items := r.items(v)
	if given[1] != (absent{}) && given[1] != nil {
		items = r.keysOf(items, given[1], true)
	}
	var w textWriter
	for i, item := range items {
		if i > 0 {
			r.put(&w, between)
		}
		r.putValue(&w, item)
	}
	return w.text()
}

// sum is sum(attribute=None, start=0).
func sum(r *run, v value, a args) value {
	given := a.bind("sum", "attribute? start?")
	items := r.items(v)
	if given[0] != (absent{}) && given[0] != nil {
		items = r.keysOf(items, given[0], true)
	}
	total := value(0)
	if given[1] != (absent{}) {
		total = given[1]
	}
	if _, ok := total.(Text); ok {
		panic(failf("strings are not added up: use the filter join"))
	}
	for _, item := range items {
		total = r.binary("+", total, item)
	}
	return total
}

// itemsByKey returns the items of a value, with what the arguments of a filter,
// case_sensitive=False and attribute=None, compare them by.
func (r *run) itemsByKey(of string, v value, a args) (items, keys []value) {
	given := a.bind(of, "case_sensitive? attribute?")
	items = r.items(v)
	return items, r.keysOf(items, given[1], flag(given[0]))
}

// unique is unique(case_sensitive=False, attribute=None): the first of each.
func unique(r *run, v value, a args) value {
	items, keys := r.itemsByKey("unique", v, a)
	seen, out := NewDict(), &List{kind: generator}
	for i, key := range keys {
		if _, there := r.lookUp(seen, key); !there {
			r.putKey(seen, key, nil)
			out.items = append(out.items, items[i])
		}
	}
	return out
}

// extreme is max(case_sensitive=False, attribute=None), or min.
func (r *run) extreme(v value, most bool, a args) value {
	items, keys := r.itemsByKey("max or min", v, a)
	if len(items) == 0 {
		return undefined{why: "there are no items"}
	}
	defer within("max or min")
	best := 0
	for i := 1; i < len(keys); i++ {
		c := r.compare(keys[i], keys[best], 0)
		if c != unordered && (most && c > 0 || !most && c < 0) {
			best = i
		}
	}
	return items[best]
}
