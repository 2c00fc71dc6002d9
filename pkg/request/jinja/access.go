package jinja

import (
	"fmt"
	"unicode/utf8"
)

func (e attributeOf) eval(r *run, s *scope) value {
	of := e.of.eval(r, s)
	return r.attribute(of, e.name)
}

// attribute is v.name: a method if there is one, else v['name'].
func (r *run) attribute(v value, name string) value {
	r.scan(len(name))
	if m := method(v, name); m != nil {
		return &function{name, m}
	}
	return r.plainItem(v, name)
}

// plainItem returns the attribute of an object or the key of a dictionary.
func (r *run) plainItem(v value, name string) value {
	switch v := v.(type) {
	case undefined:
		panic(v.failure())
	case *Dict:
		if i, ok := v.at[name]; ok {
			return v.values[i]
		}
	case *namespace:
		if value, ok := v.vars[name]; ok {
			return value
		}
	case *loop:
		if value, ok := v.attribute(name); ok {
			return value
		}
	}
	return undefined{why: fmt.Sprintf("%s has no attribute %q", typeName(v), name)}
}

func (e itemOf) eval(r *run, s *scope) value {
	of := e.of.eval(r, s)
	key := e.key.eval(r, s)
	return r.item(of, key)
}

// item is v[key]: an item if there is one, else v.key.
func (r *run) item(v, key value) value {
	r.scan(len(textOf(key)))
	switch v := v.(type) {
	case undefined:
		panic(v.failure())
	case *Dict:
		if value, ok := v.get(key); ok {
			return value
		}
	case *List:
		if i, ok := whole(key); ok && v.indexed() {
			return itemAt(v.items, i)
		}
	case Text:
		if i, ok := whole(key); ok {
			return r.characterAt(v, i)
		}
	}
	if name, ok := key.(Text); ok {
		return r.attribute(v, name.s)
	}
	return undefined{why: fmt.Sprintf("%s has no item %s", typeName(v), r.str(key).s)}
}

func itemAt(items []value, i int) value {
	if i < 0 {
		i += len(items)
	}
	if i < 0 || i >= len(items) {
		return undefined{why: "the list has no such item"}
	}
	return items[i]
}

func (r *run) characterAt(t Text, i int) value {
	r.scan(len(t.s))
	if i < 0 {
		i += utf8.RuneCountInString(t.s)
	}
	start := byteOffset(t.s, i)
	if i < 0 || start == len(t.s) {
		return undefined{why: "the string has no such character"}
	}
	_, n := utf8.DecodeRuneInString(t.s[start:])
	return t.slice(start, start+n)
}

// byteOffset returns where the nth character begins; the end if there are fewer.
func byteOffset(s string, n int) int {
	if n <= 0 {
		return 0
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func (e sliceOf) eval(r *run, s *scope) value {
	of := e.of.eval(r, s)
	var bounds [3]value
	for i, part := range []expression{e.start, e.stop, e.step} {
		if part == nil {
			continue
		}
		bounds[i] = part.eval(r, s)
		if _, ok := whole(bounds[i]); !ok && bounds[i] != nil {
			panic(failf("%s is no bound of a slice", typeName(bounds[i])))
		}
	}
	return r.slice(of, bounds)
}

func (r *run) slice(v value, bounds [3]value) value {
	switch v := v.(type) {
	case undefined:
		panic(v.failure())
	case Text:
		return r.sliceText(v, bounds)
	case *List:
		if !v.indexed() {
			break
		}
		picked := indices(len(v.items), bounds)
		r.makeItems(len(picked))
		out := make([]value, len(picked))
		for i, at := range picked {
			out[i] = v.items[at]
		}
		return &List{items: out, kind: v.kind}
	}
	panic(failf("%s has no slices", typeName(v)))
}

func (r *run) sliceText(t Text, bounds [3]value) value {
	n := utf8.RuneCountInString(t.s)
	r.make(len(t.s))
	if step, ok := whole(bounds[2]); !ok || step == 1 {
		start, stop := clamp(bounds[0], n, 0, 0, n), clamp(bounds[1], n, n, 0, n)
		from := byteOffset(t.s, start)
		return t.slice(from, from+byteOffset(t.s[from:], max(stop-start, 0)))
	}
	r.makeItems(n)
	starts := make([]int, 0, n+1)
	for i := range t.s {
		starts = append(starts, i)
	}
	starts = append(starts, len(t.s))
	var w textWriter
	for _, i := range indices(n, bounds) {
		w.add(t.slice(starts[i], starts[i+1]))
	}
	return w.text()
}

// indices returns the places that a slice of n items picks.
func indices(n int, bounds [3]value) (out []int) {
	step := 1
	if s, ok := whole(bounds[2]); ok {
		step = max(min(s, n+1), -n-1)
	}
	if step == 0 {
		panic(failf("the step of a slice is 0"))
	}
	if step > 0 {
		for i, stop := clamp(bounds[0], n, 0, 0, n), clamp(bounds[1], n, n, 0, n); i < stop; i += step {
			out = append(out, i)
		}
		return out
	}
	for i, stop := clamp(bounds[0], n, n-1, -1, n-1), clamp(bounds[1], n, -1, -1, n-1); i > stop; i += step {
		out = append(out, i)
	}
	return out
}

// clamp returns a bound of a slice of n items within low and high; preset if it is none.
func clamp(bound value, n, preset, low, high int) int {
	i, ok := whole(bound)
	if !ok {
		return preset
	}
	if i < 0 {
		i += n
	}
	return max(low, min(i, high))
}
