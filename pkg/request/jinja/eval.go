package jinja

import (
	"errors"
	"fmt"
)

func (e constant) eval(r *run, _ *scope) (value, error) { return e.value, r.step(1) }

func (e variable) eval(r *run, s *scope) (value, error) {
	v, passed := s.get(string(e))
	return v, r.scan(passed + len(e))
}

// all evaluates expressions in order.
func (r *run) all(list []expression, s *scope) ([]value, error) {
	if err := r.makeItems(len(list)); err != nil {
		return nil, err
	}
	out := make([]value, len(list))
	for i, e := range list {
		var err error
		if out[i], err = e.eval(r, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e listOf) eval(r *run, s *scope) (value, error) {
	items, err := r.all(e.items, s)
	return &List{items: items, kind: e.kind}, err
}

func (e dictOf) eval(r *run, s *scope) (value, error) {
	out := NewDict()
	for i, key := range e.keys {
		k, err := key.eval(r, s)
		if err != nil {
			return nil, err
		}
		v, err := e.values[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		if err := r.putKey(out, k, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// putKey sets the value of a key.
func (r *run) putKey(d *Dict, key, v value) error {
	h, err := hashed(key)
	if err == nil {
		err = firstOf(r.makeItems(4), r.scan(len(textOf(key))))
	}
	if err != nil {
		return err
	}
	d.put(key, h, v)
	return nil
}

// lookUp finds the value of a key; what cannot be one is an error.
func (r *run) lookUp(d *Dict, key value) (v value, ok bool, err error) {
	if _, err := hashed(key); err != nil {
		return nil, false, err
	}
	v, ok = d.get(key)
	return v, ok, r.scan(len(textOf(key)))
}

func (e condition) eval(r *run, s *scope) (value, error) {
	test, err := e.test.eval(r, s)
	switch {
	case err != nil:
		return nil, err
	case truth(test):
		return e.then.eval(r, s)
	case e.otherwise == nil:
		return undefined{why: "an inline if without else has no value here"}, nil
	}
	return e.otherwise.eval(r, s)
}

func (e either) eval(r *run, s *scope) (value, error) {
	a, err := e.a.eval(r, s)
	if err != nil || truth(a) {
		return a, err
	}
	return e.b.eval(r, s)
}

func (e both) eval(r *run, s *scope) (value, error) {
	a, err := e.a.eval(r, s)
	if err != nil || !truth(a) {
		return a, err
	}
	return e.b.eval(r, s)
}

func (e negation) eval(r *run, s *scope) (value, error) {
	v, err := e.of.eval(r, s)
	return !truth(v), err
}

func (e comparison) eval(r *run, s *scope) (value, error) {
	a, err := e.first.eval(r, s)
	for i, op := range e.ops {
		if err != nil {
			return nil, err
		}
		b, err := e.rest[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		if holds, err := r.holds(op, a, b); err != nil || !holds {
			return false, err
		}
		a = b
	}
	return true, err
}

// holds is whether a op b.
func (r *run) holds(op string, a, b value) (bool, error) {
	switch op {
	case "==", "!=":
		same, err := r.equal(a, b, 0)
		return same == (op == "=="), err
	case "in", "not in":
		in, err := r.contains(b, a)
		return in == (op == "in"), err
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(undefined); ok {
			return false, u.error()
		}
	}
	order, err := r.compare(a, b, 0)
	if err != nil || order == unordered {
		return false, err
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

// contains is Python's in.
func (r *run) contains(in, v value) (bool, error) {
	switch in := in.(type) {
	case Text:
		t, ok := v.(Text)
		if !ok {
			return false, fmt.Errorf("%s is in no string", typeName(v))
		}
		return index(in.s, t.s) >= 0, r.scan(len(in.s))
	case *Dict:
		_, ok, err := r.lookUp(in, v)
		return ok, err
	}
	items, err := r.items(in)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if same, err := r.equal(item, v, 0); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

func (e call) eval(r *run, s *scope) (value, error) {
	of, a, err := r.operands(e.of, e.args, s)
	if err != nil {
		return nil, err
	}
	return r.call(of, a)
}

// operands evaluates what is called, filtered or tested, and with which arguments.
func (r *run) operands(of expression, with arguments, s *scope) (value, args, error) {
	v, err := of.eval(r, s)
	if err != nil {
		return nil, args{}, err
	}
	a, err := r.arguments(with, s)
	return v, a, err
}

// arguments evaluates the arguments of a call.
func (r *run) arguments(a arguments, s *scope) (args, error) {
	values, err := r.all(a.values, s)
	if err != nil {
		return args{}, err
	}
	named, err := r.all(a.named, s)
	return args{values, append([]string{}, a.names...), named}, err
}

// call calls a function, or a recursive loop.
func (r *run) call(of value, a args) (value, error) {
	if l, ok := of.(*loop); ok && l.again != nil {
		of = l.again
	}
	f, ok := of.(*function)
	if !ok {
		if u, ok := of.(undefined); ok {
			return nil, u.error()
		}
		return nil, fmt.Errorf("%s cannot be called", typeName(of))
	}
	if r.calls--; r.calls < 0 {
		return nil, errCalls
	}
	defer func() { r.calls++ }()
	if err := r.step(scopeSteps); err != nil {
		return nil, err
	}
	return f.call(r, a)
}

func (e filtered) eval(r *run, s *scope) (value, error) {
	of, a, err := r.operands(e.of, e.args, s)
	if err != nil {
		return nil, err
	}
	return r.filter(e.name, of, a)
}

// filter applies a filter by name.
func (r *run) filter(name string, v value, a args) (value, error) {
	f := filterNamed(name)
	if f == nil {
		return nil, fmt.Errorf("there is no filter %q", name)
	}
	if err := r.step(1); err != nil {
		return nil, err
	}
	out, err := f(r, v, a)
	return out, within("filter "+name, err)
}

// within says in what an error happened, unless that would hide what it is.
func within(where string, err error) error {
	var raised *Raised
	var e *Error
	if err == nil || errors.As(err, &raised) || errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

func (e tested) eval(r *run, s *scope) (value, error) {
	of, a, err := r.operands(e.of, e.args, s)
	if err != nil {
		return nil, err
	}
	return r.test(e.name, of, a)
}

// test applies a test by name.
func (r *run) test(name string, v value, a args) (bool, error) {
	f := testNamed(name)
	if f == nil {
		return false, fmt.Errorf("there is no test %q", name)
	}
	if err := r.step(1); err != nil {
		return false, err
	}
	ok, err := f(r, v, a)
	return ok, within("test "+name, err)
}
