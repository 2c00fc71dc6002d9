package jinja

import (
	"errors"
	"fmt"
)

// loop is the variable of that name in a loop.
type loop struct {
	items []value
	at    int // index0
	depth int // of recursive loops, from 0
	again *function
	seen  []value // by changed
}

func (b forLoop) exec(r *run, s *scope, w *textWriter) error {
	over, err := b.over.eval(r, s)
	if err != nil {
		return at(b.line, err)
	}
	return b.run(r, s, w, over, 0)
}

// run goes through the items of a value.
func (b forLoop) run(r *run, s *scope, w *textWriter, over value, depth int) error {
	items, err := r.items(over)
	if err == nil && b.where != nil {
		items, err = b.chosen(r, s, items)
	}
	if err != nil {
		return at(b.line, err)
	}
	if len(items) == 0 {
		return r.body(b.empty, &scope{parent: s}, w)
	}
	l := &loop{items: items, depth: depth}
	if b.recursive {
		l.again = b.recursion(s, depth)
	}
	for l.at = range items {
		if err := r.step(scopeSteps); err != nil {
			return at(b.line, err)
		}
		inner := &scope{parent: s, own: []binding{{"loop", l}}}
		if err := b.target.assign(r, inner, items[l.at]); err != nil {
			return at(b.line, err)
		}
		switch err := r.body(b.body, inner, w); {
		case errors.Is(err, errBreak):
			return nil
		case err != nil && !errors.Is(err, errContinue):
			return err
		}
	}
	return nil
}

// chosen are the items for which the loop's condition holds.
func (b forLoop) chosen(r *run, s *scope, items []value) (out []value, err error) {
	for _, item := range items {
		inner := &scope{parent: s}
		if err := b.target.assign(r, inner, item); err != nil {
			return nil, err
		}
		v, err := b.where.eval(r, inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			out = append(out, item)
		}
	}
	return out, r.makeItems(len(out))
}

// recursion is what loop(…) does in a recursive loop: the loop's text for another value.
func (b forLoop) recursion(s *scope, depth int) *function {
	return &function{"loop", func(r *run, a args) (value, error) {
		v, err := a.bind("loop", "over")
		if err != nil {
			return nil, err
		}
		var w textWriter
		err = b.run(r, s, &w, v[0], depth+1)
		return w.text(), err
	}}
}

// attribute is one of loop's attributes.
func (l *loop) attribute(name string) (value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return l.at + 1, true
	case "index0":
		return l.at, true
	case "revindex":
		return n - l.at, true
	case "revindex0":
		return n - l.at - 1, true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		return l.item(l.at-1, "there is no previous item"), true
	case "nextitem":
		return l.item(l.at+1, "there is no next item"), true
	case "cycle":
		return &function{"loop.cycle", l.cycle}, true
	case "changed":
		return &function{"loop.changed", l.changed}, true
	}
	return nil, false
}

func (l *loop) item(i int, missing string) value {
	if i < 0 || i >= len(l.items) {
		return undefined{why: missing}
	}
	return l.items[i]
}

func (l *loop) cycle(_ *run, a args) (value, error) {
	if len(a.values) == 0 || len(a.names) > 0 {
		return nil, errors.New("loop.cycle takes the values to go through")
	}
	return a.values[l.at%len(a.values)], nil
}

// changed says whether it is called with other values than the last time.
func (l *loop) changed(r *run, a args) (value, error) {
	if l.seen != nil {
		same, err := r.equal(newTuple(l.seen...), newTuple(a.values...), 0)
		if err != nil || same {
			return false, err
		}
	}
	l.seen = append([]value{}, a.values...)
	return true, nil
}

// bind makes a macro a function that sees the scope in which it stands.
func (m *macro) bind(s *scope) *function {
	return &function{m.name, func(r *run, a args) (value, error) {
		inner := &scope{parent: s}
		if err := m.parameters(r, inner, a); err != nil {
			return nil, err
		}
		t, err := r.capture(m.body, inner)
		return t, at(m.line, err)
	}}
}

// parameters sets a macro's parameters, and caller, from the arguments of a call.
func (m *macro) parameters(r *run, s *scope, a args) error {
	if len(a.values) > len(m.params) {
		return fmt.Errorf("macro %q takes at most %d arguments, not %d", m.name, len(m.params), len(a.values))
	}
	for i, p := range m.params {
		named, ok, err := a.take(p.name)
		switch {
		case err != nil:
			return err
		case i < len(a.values) && ok:
			return fmt.Errorf("macro %q has two values for %q", m.name, p.name)
		case i < len(a.values):
			named = a.values[i]
		case !ok && p.preset != nil:
			if named, err = p.preset.eval(r, s); err != nil {
				return err
			}
		case !ok:
			named = undefined{why: fmt.Sprintf("parameter %q of macro %q was not given", p.name, m.name)}
		}
		if err := s.set(p.name, named); err != nil {
			return err
		}
	}
	caller, ok, err := a.take("caller")
	if err != nil {
		return err
	}
	if !ok {
		caller = undefined{why: fmt.Sprintf("macro %q was not called by a call tag", m.name)}
	}
	if err := s.set("caller", caller); err != nil {
		return err
	}
	if len(a.names) > 0 {
		return fmt.Errorf("macro %q has no parameter %q", m.name, a.names[0])
	}
	return nil
}
