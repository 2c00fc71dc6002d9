package jinja

import (
	"fmt"
	"maps"
	"time"
)

func globals() map[string]value {
	return map[string]value{
		"range":           &function{"range", rangeOf},
		"namespace":       &function{"namespace", newNamespace},
		"dict":            &function{"dict", newDict},
		"raise_exception": &function{"raise_exception", raise},
	}
}

func raise(r *run, a args) value {
	v := a.bind("raise_exception", "message")
	panic(failure{&Raised{r.str(v[0]).s}})
}

func rangeOf(r *run, a args) value {
	v := a.bind("range", "start stop? step?")
	n := [3]int{0, 0, 1}
	defer within("range")
	for i := range n {
		n[i] = integer(v[i], n[i])
	}
	if v[1] == (absent{}) {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		panic(failf("its step is 0"))
	}
	out := &List{prefix: fmt.Sprintf("range(%d, %d)", n[0], n[1])}
	for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; i += n[2] {
		if len(out.items) == maxRange {
			panic(failf("it is longer than %d", maxRange))
		}
		out.items = append(out.items, i)
		if n[2] > 0 && i > n[1]-n[2] || n[2] < 0 && i < n[1]-n[2] {
			break // the next one could overflow
		}
	}
	r.makeItems(len(out.items))
	return out
}

func newNamespace(r *run, a args) value {
	d := r.dictOf(a)
	ns := &namespace{map[string]value{}}
	for i, key := range d.keys {
		t, ok := key.(Text)
		if !ok || t.s == "" {
			panic(failf("an attribute's name is no string"))
		}
		ns.set(t.s, d.values[i])
	}
	return ns
}

// newDict is Python's dict: of another one or of pairs, and of named arguments.
func newDict(r *run, a args) value { return r.dictOf(a) }

func (r *run) dictOf(a args) *Dict {
	out := NewDict()
	if len(a.values) > 1 {
		panic(failf("dict takes one value at most"))
	}
	if len(a.values) == 1 {
		r.fill(out, a.values[0])
	}
	for i, name := range a.names {
		r.putKey(out, Inside(name), a.named[i])
	}
	return out
}

func (r *run) fill(d *Dict, from value) {
	if other, ok := from.(*Dict); ok {
		d.keys, d.values, d.at = append(d.keys, other.keys...), append(d.values, other.values...), maps.Clone(other.at)
		r.makeItems(4 * len(d.keys))
		return
	}
	for _, p := range r.items(from) {
		pair, ok := p.(*List)
		if !ok || len(pair.items) != 2 {
			panic(failf("dict takes pairs"))
		}
		r.putKey(d, pair.items[0], pair.items[1])
	}
}

// StrftimeNow returns the function strftime_now of a fixed time.
func StrftimeNow(now time.Time) any {
	return &function{"strftime_now", func(r *run, a args) value {
		v := a.bind("strftime_now", "format")
		defer within("strftime_now")
		format := texts(v[0], "")
		r.make(16 * len(format.s))
		return format.as(strftime(now, format.s))
	}}
}
