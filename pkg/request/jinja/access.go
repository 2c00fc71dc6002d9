package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

func index(s, part string) int { return strings.Index(s, part) }

func (e attributeOf) eval(r *run, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.attribute(of, e.name)
}

// attribute is v.name: a method if there is one, else v['name'].
func (r *run) attribute(v value, name string) (value, error) {
	if err := r.scan(len(name)); err != nil {
		return nil, err
	}
	if m := method(v, name); m != nil {
		return &function{name, m}, nil
	}
	return r.plainItem(v, name)
}

// plainItem is the attribute of an object or the key of a dictionary.
func (r *run) plainItem(v value, name string) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, v.error()
	case *Dict:
		if i, ok := v.at[name]; ok {
			return v.values[i], nil
		}
	case *namespace:
		if value, ok := v.vars[name]; ok {
			return value, nil
		}
	case *loop:
		if value, ok := v.attribute(name); ok {
			return value, nil
		}
	}
	return undefined{why: fmt.Sprintf("%s has no attribute %q", typeName(v), name)}, nil
}

func (e itemOf) eval(r *run, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	key, err := e.key.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.item(of, key)
}

// item is v[key]: an item if there is one, else v.key.
func (r *run) item(v, key value) (value, error) {
	if err := r.scan(len(textOf(key))); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case undefined:
		return nil, v.error()
	case *Dict:
		if value, ok := v.get(key); ok {
			return value, nil
		}
	case *List:
		if i, ok := whole(key); ok && v.indexed() {
			return itemAt(v.items, i), nil
		}
	case Text:
		if i, ok := whole(key); ok {
			return r.characterAt(v, i)
		}
	}
	if name, ok := key.(Text); ok {
		return r.attribute(v, name.s)
	}
	t, err := r.str(key)
	return undefined{why: fmt.Sprintf("%s has no item %s", typeName(v), t.s)}, err
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

func (r *run) characterAt(t Text, i int) (value, error) {
	if err := r.scan(len(t.s)); err != nil {
		return nil, err
	}
	if i < 0 {
		i += utf8.RuneCountInString(t.s)
	}
	start := byteOffset(t.s, i)
	if i < 0 || start == len(t.s) {
		return undefined{why: "the string has no such character"}, nil
	}
	_, n := utf8.DecodeRuneInString(t.s[start:])
	return t.slice(start, start+n), nil
}

// byteOffset is where the nth character begins; the end if there are fewer.
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

func (e sliceOf) eval(r *run, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	var bounds [3]value
	for i, part := range []expression{e.start, e.stop, e.step} {
		if part == nil {
			continue
		}
		if bounds[i], err = part.eval(r, s); err != nil {
			return nil, err
		}
		if _, ok := whole(bounds[i]); !ok && bounds[i] != nil {
			return nil, fmt.Errorf("%s is no bound of a slice", typeName(bounds[i]))
		}
	}
	return r.slice(of, bounds)
}

func (r *run) slice(v value, bounds [3]value) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, v.error()
	case Text:
		return r.sliceText(v, bounds)
	case *List:
		if !v.indexed() {
			break
		}
		picked, err := indices(len(v.items), bounds)
		if err == nil {
			err = r.makeItems(len(picked))
		}
		if err != nil {
			return nil, err
		}
		out := make([]value, len(picked))
		for i, at := range picked {
			out[i] = v.items[at]
		}
		return &List{items: out, kind: v.kind}, nil
	}
	return nil, fmt.Errorf("%s has no slices", typeName(v))
}

func (r *run) sliceText(t Text, bounds [3]value) (value, error) {
	n := utf8.RuneCountInString(t.s)
	if err := r.make(len(t.s)); err != nil {
		return nil, err
	}
	if step, ok := whole(bounds[2]); !ok || step == 1 {
		start, stop := clamp(bounds[0], n, 0, 0, n), clamp(bounds[1], n, n, 0, n)
		from := byteOffset(t.s, start)
		return t.slice(from, from+byteOffset(t.s[from:], max(stop-start, 0))), nil
	}
	if err := r.makeItems(n); err != nil {
		return nil, err
	}
	starts := make([]int, 0, n+1)
	for i := range t.s {
		starts = append(starts, i)
	}
	starts = append(starts, len(t.s))
	picked, err := indices(n, bounds)
	var w textWriter
	for _, i := range picked {
		w.add(t.slice(starts[i], starts[i+1]))
	}
	return w.text(), err
}

// indices are the places that a slice of n items picks.
func indices(n int, bounds [3]value) (out []int, err error) {
	step := 1
	if s, ok := whole(bounds[2]); ok {
		step = max(min(s, n+1), -n-1)
	}
	if step == 0 {
		return nil, errors.New("the step of a slice is 0")
	}
	if step > 0 {
		for i, stop := clamp(bounds[0], n, 0, 0, n), clamp(bounds[1], n, n, 0, n); i < stop; i += step {
			out = append(out, i)
		}
		return out, nil
	}
	for i, stop := clamp(bounds[0], n, n-1, -1, n-1), clamp(bounds[1], n, -1, -1, n-1); i > stop; i += step {
		out = append(out, i)
	}
	return out, nil
}

// clamp is a bound of a slice of n items within low and high; preset if it is none.
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
