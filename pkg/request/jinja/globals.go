package jinja

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// globals are what every template sees.
func globals() map[string]value {
	return map[string]value{
		"range":           &function{"range", rangeOf},
		"namespace":       &function{"namespace", newNamespace},
		"dict":            &function{"dict", newDict},
		"raise_exception": &function{"raise_exception", raise},
	}
}

func raise(r *run, a args) (value, error) {
	v, err := a.bind("raise_exception", "message")
	if err != nil {
		return nil, err
	}
	t, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	return nil, &Raised{t.s}
}

// rangeOf is Python's range.
func rangeOf(r *run, a args) (value, error) {
	v, err := a.bind("range", "start stop? step?")
	if err != nil {
		return nil, err
	}
	n := [3]int{0, 0, 1}
	for i := range n {
		if n[i], err = integer(v[i], n[i]); err != nil {
			return nil, within("range", err)
		}
	}
	if v[1] == (absent{}) {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		return nil, errors.New("range: its step is 0")
	}
	out := &List{prefix: fmt.Sprintf("range(%d, %d)", n[0], n[1])}
	for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; i += n[2] {
		if len(out.items) == maxRange {
			return nil, fmt.Errorf("range is longer than %d", maxRange)
		}
		out.items = append(out.items, i)
		if n[2] > 0 && i > n[1]-n[2] || n[2] < 0 && i < n[1]-n[2] {
			break // the next one could overflow
		}
	}
	return out, r.makeItems(len(out.items))
}

func newNamespace(r *run, a args) (value, error) {
	d, err := r.dictOf(a)
	if err != nil {
		return nil, err
	}
	ns := &namespace{map[string]value{}}
	for i, key := range d.keys {
		t, ok := key.(Text)
		if !ok || t.s == "" {
			return nil, errors.New("an attribute's name is no string")
		}
		if err := ns.set(t.s, d.values[i]); err != nil {
			return nil, err
		}
	}
	return ns, nil
}

// newDict is Python's dict: of another one or of pairs, and of named arguments.
func newDict(r *run, a args) (value, error) { return r.dictOf(a) }

func (r *run) dictOf(a args) (*Dict, error) {
	out := NewDict()
	if len(a.values) > 1 {
		return nil, errors.New("dict takes one value at most")
	}
	if len(a.values) == 1 {
		if err := r.fill(out, a.values[0]); err != nil {
			return nil, err
		}
	}
	for i, name := range a.names {
		if err := r.putKey(out, Inside(name), a.named[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *run) fill(d *Dict, from value) error {
	if other, ok := from.(*Dict); ok {
		d.keys, d.values, d.at = append(d.keys, other.keys...), append(d.values, other.values...), maps.Clone(other.at)
		return r.makeItems(4 * len(d.keys))
	}
	pairs, err := r.items(from)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		pair, ok := p.(*List)
		if !ok || len(pair.items) != 2 {
			return errors.New("dict takes pairs")
		}
		if err := r.putKey(d, pair.items[0], pair.items[1]); err != nil {
			return err
		}
	}
	return nil
}

// StrftimeNow is the function strftime_now of a fixed time.
func StrftimeNow(now time.Time) any {
	return &function{"strftime_now", func(r *run, a args) (value, error) {
		v, err := a.bind("strftime_now", "format")
		if err != nil {
			return nil, err
		}
		format, err := texts(v[0], "")
		if err != nil {
			return nil, within("strftime_now", err)
		}
		if err := r.make(16 * len(format.s)); err != nil {
			return nil, err
		}
		s, err := strftime(now, format.s)
		return format.as(s), err
	}}
}
