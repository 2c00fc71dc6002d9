package jinja

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func length(r *run, v value, _ args) value {
	switch v := v.(type) {
	case undefined:
		return 0
	case Text:
		r.scan(len(v.s))
		return utf8.RuneCountInString(v.s)
	case *Dict:
		return len(v.keys)
	case *List:
		if v.kind != generator {
			return len(v.items)
		}
	}
	panic(failf("%s has no length", typeName(v)))
}

func (r *run) endOf(v value, last bool) value {
	if l, ok := v.(*List); ok && l.kind == generator && !last && len(l.items) > 0 {
		first := l.items[0] // the rest stays
		l.items = l.items[1:]
		return first
	}
	items := r.items(v)
	switch {
	case len(items) == 0:
		return undefined{why: "there is no first or last item"}
	case last:
		return items[len(items)-1]
	}
	return items[0]
}

func (r *run) listed(v value) value {
	items := r.items(v)
	r.makeItems(len(items))
	return NewList(slices.Clone(items)...)
}

func reverse(r *run, v value, _ args) value {
	if t, ok := v.(Text); ok {
		return r.sliceText(t, [3]value{nil, nil, -1})
	}
	items := r.items(v)
	out := slices.Clone(items)
	slices.Reverse(out)
	r.makeItems(len(out))
	return &List{items: out, kind: generator}
}

func itemsFilter(r *run, v value, _ args) value {
	switch v := v.(type) {
	case undefined:
		return &List{kind: generator}
	case *Dict:
		return &List{items: r.pairs(v), kind: generator}
	}
	panic(failf("%s has no items", typeName(v)))
}

func (r *run) pairs(d *Dict) []value {
	r.makeItems(6 * len(d.keys))
	out := make([]value, len(d.keys))
	for i := range out {
		out[i] = newTuple(d.keys[i], d.values[i])
	}
	return out
}

// getter reads an attribute such as "a.b" or 0 of an item; "" is the item itself.
func (r *run) getter(path value) func(value) value {
	if n, ok := whole(path); ok {
		path = Inside(strconv.Itoa(n))
	}
	t, ok := path.(Text)
	if !ok {
		panic(failf("attribute is no string"))
	}
	parts := r.cutAt(t.s, ".")
	return func(v value) value {
		for _, part := range parts {
			var key value = Inside(part)
			if n, err := strconv.Atoi(part); err == nil {
				key = n
			}
			v = r.item(v, key)
		}
		return v
	}
}

// cutAt returns the parts of the path of an attribute.
func (r *run) cutAt(path, separator string) []string {
	r.makeItems(pathItems * (1 + strings.Count(path, separator)))
	return strings.Split(path, separator)
}

// keyed returns a function that items are ordered by: an attribute, or several with
// commas between them, strings without their case unless that counts.
func (r *run) keyed(attribute value, caseCounts bool) func(value) value {
	gets := r.getters(attribute)
	return func(v value) value {
		if len(gets) == 0 {
			return r.folded(v, caseCounts)
		}
		key := newTuple()
		for _, get := range gets {
			key.items = append(key.items, r.folded(get(v), caseCounts))
		}
		if len(gets) == 1 {
			return key.items[0]
		}
		return key
	}
}

// getters returns those of attributes with commas between them.
func (r *run) getters(attribute value) (out []func(value) value) {
	if attribute == nil || attribute == (absent{}) {
		return nil
	}
	paths := []value{attribute}
	if t, ok := attribute.(Text); ok {
		paths = nil
		for _, p := range r.cutAt(t.s, ",") {
			paths = append(paths, Inside(p))
		}
	}
	for _, p := range paths {
		out = append(out, r.getter(p))
	}
	return out
}

// folded returns a string without its case, unless that counts; anything else as it is.
func (r *run) folded(v value, caseCounts bool) value {
	t, ok := v.(Text)
	if !ok || caseCounts {
		return v
	}
	r.make(len(t.s))
	return t.as(strings.ToLower(t.s))
}

func (r *run) keysOf(items []value, attribute value, caseCounts bool) []value {
	key := r.keyed(attribute, caseCounts)
	r.makeItems(2 * len(items))
	out := make([]value, len(items))
	for i, v := range items {
		out[i] = key(v)
	}
	return out
}

func places(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func (r *run) sorted(items []value, attribute value, caseCounts, down bool) value {
	keys := r.keysOf(items, attribute, caseCounts)
	order := places(len(keys))
	slices.SortStableFunc(order, func(i, j int) int {
		if down {
			i, j = j, i
		}
		return r.compare(keys[i], keys[j], 0)
	})
	out := make([]value, len(items))
	for i, at := range order {
		out[i] = items[at]
	}
	return NewList(out...)
}

func sortFilter(r *run, v value, a args) value {
	given := a.bind("sort", "reverse? case_sensitive? attribute?")
	return r.sorted(r.items(v), given[2], flag(given[1]), flag(given[0]))
}

func dictSort(r *run, v value, a args) value {
	given := a.bind("dictsort", "case_sensitive? by? reverse?")
	d, ok := v.(*Dict)
	if !ok {
		panic(failf("%s is no dictionary", typeName(v)))
	}
	by := texts(given[1], "key")
	if by.s != "key" && by.s != "value" {
		panic(failf("by is not key or value"))
	}
	place := map[string]int{"key": 0, "value": 1}[by.s]
	return r.sorted(r.pairs(d), place, flag(given[0]), flag(given[2]))
}
