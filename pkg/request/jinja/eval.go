package jinja

import (
	"errors"
	"slices"
	"strings"
)

func (e constant) eval(r *run, _ *scope) value {
	r.step(1)
	return e.value
}

func (e variable) eval(r *run, s *scope) value {
	v, passed := s.get(string(e))
	r.scan(passed + len(e))
	return v
}

func (r *run) all(list []expression, s *scope) []value {
	r.makeItems(len(list))
	out := make([]value, len(list))
	for i, e := range list {
		out[i] = e.eval(r, s)
	}
	return out
}

func (e listOf) eval(r *run, s *scope) value {
	return &List{items: r.all(e.items, s), kind: e.kind}
}

func (e dictOf) eval(r *run, s *scope) value {
	out := NewDict()
	for i, key := range e.keys {
		k := key.eval(r, s)
		r.putKey(out, k, e.values[i].eval(r, s))
	}
	return out
}

func (r *run) putKey(d *Dict, key, v value) {
	h := hashed(key)
	r.makeItems(4)
	r.scan(len(textOf(key)))
	d.put(key, h, v)
}

// lookUp finds the value of a key; what cannot be one is an error.
func (r *run) lookUp(d *Dict, key value) (v value, ok bool) {
	hashed(key)
	v, ok = d.get(key)
	r.scan(len(textOf(key)))
	return v, ok
}

func (e condition) eval(r *run, s *scope) value {
	switch {
	case truth(e.test.eval(r, s)):
		return e.then.eval(r, s)
	case e.otherwise == nil:
		return undefined{why: "an inline if without else has no value here"}
	}
	return e.otherwise.eval(r, s)
}

func (e either) eval(r *run, s *scope) value {
	if a := e.a.eval(r, s); truth(a) {
		return a
	}
	return e.b.eval(r, s)
}

func (e both) eval(r *run, s *scope) value {
	if a := e.a.eval(r, s); !truth(a) {
		return a
	}
	return e.b.eval(r, s)
}

func (e negation) eval(r *run, s *scope) value { return !truth(e.of.eval(r, s)) }

func (e comparison) eval(r *run, s *scope) value {
	a := e.first.eval(r, s)
	for i, op := range e.ops {
		b := e.rest[i].eval(r, s)
		if !r.holds(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (r *run) holds(op string, a, b value) bool {
	switch op {
	case "==", "!=":
		return r.equal(a, b, 0) == (op == "==")
	case "in", "not in":
		return r.contains(b, a) == (op == "in")
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(undefined); ok {
			panic(u.failure())
		}
	}
	order := r.compare(a, b, 0)
	if order == unordered {
		return false
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func (r *run) contains(in, v value) bool {
	switch in := in.(type) {
	case Text:
		t, ok := v.(Text)
		if !ok {
			panic(failf("%s is in no string", typeName(v)))
		}
		r.scan(len(in.s))
		return strings.Contains(in.s, t.s)
	case *Dict:
		_, ok := r.lookUp(in, v)
		return ok
	}
	return slices.ContainsFunc(r.items(in), func(item value) bool { return r.equal(item, v, 0) })
}

func (e call) eval(r *run, s *scope) value {
	of, a := r.operands(e.of, e.args, s)
	return r.call(of, a)
}

// operands evaluates what is called, filtered or tested, and with which arguments.
func (r *run) operands(of expression, with arguments, s *scope) (value, args) {
	v := of.eval(r, s)
	return v, r.arguments(with, s)
}

func (r *run) arguments(a arguments, s *scope) args {
	values := r.all(a.values, s)
	return args{values, append([]string{}, a.names...), r.all(a.named, s)}
}

func (r *run) call(of value, a args) value {
	if l, ok := of.(*loop); ok && l.again != nil {
		of = l.again
	}
	f, ok := of.(*function)
	if !ok {
		if u, ok := of.(undefined); ok {
			panic(u.failure())
		}
		panic(failf("%s cannot be called", typeName(of)))
	}
	if r.calls--; r.calls < 0 {
		panic(failure{errCalls})
	}
	defer func() { r.calls++ }()
	r.step(scopeSteps)
	return f.call(r, a)
}

func (e filtered) eval(r *run, s *scope) value {
	of, a := r.operands(e.of, e.args, s)
	return r.filter(e.name, of, a)
}

func (r *run) filter(name string, v value, a args) value {
	f := filters[name]
	if f == nil {
		panic(failf("there is no filter %q", name))
	}
	r.step(1)
	defer within("filter " + name)
	return f(r, v, a)
}

// within is deferred: it adds to a failure where it happened, unless that would hide what it is.
func within(where string) {
	var raised *Raised
	switch err := caught(recover()); {
	case errors.As(err, &raised):
		panic(failure{err})
	case err != nil:
		panic(failf("%s: %w", where, err))
	}
}

func (e tested) eval(r *run, s *scope) value {
	of, a := r.operands(e.of, e.args, s)
	return r.test(e.name, of, a)
}

func (r *run) test(name string, v value, a args) bool {
	f := testNamed(name)
	if f == nil {
		panic(failf("there is no test %q", name))
	}
	r.step(1)
	defer within("test " + name)
	return f(r, v, a)
}
