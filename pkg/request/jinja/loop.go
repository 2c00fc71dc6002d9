package jinja

import "fmt"

// loop is the variable of that name in a loop.
type loop struct {
	items []value
	at    int // index0
	depth int // of recursive loops, from 0
	again *function
	seen  []value // by changed
}

func (b forLoop) exec(r *run, s *scope, w *textWriter) {
	r.line = b.line
	b.run(r, s, w, b.over.eval(r, s), 0)
}

func (b forLoop) run(r *run, s *scope, w *textWriter, over value, depth int) {
	items := r.items(over)
	if b.where != nil {
		items = b.chosen(r, s, items)
	}
	if len(items) == 0 {
		r.body(b.empty, &scope{parent: s}, w)
		return
	}
	l := &loop{items: items, depth: depth}
	if b.recursive {
		l.again = b.recursion(s, depth)
	}
	for l.at = range items {
		r.step(scopeSteps)
		inner := &scope{parent: s, own: []binding{{"loop", l}}}
		b.target.assign(r, inner, items[l.at])
		r.body(b.body, inner, w)
		jump := r.jump
		if r.jump = nil; jump != nil && jump.leaves {
			return
		}
	}
}

// chosen returns the items for which the loop's condition holds.
func (b forLoop) chosen(r *run, s *scope, items []value) (out []value) {
	for _, item := range items {
		inner := &scope{parent: s}
		b.target.assign(r, inner, item)
		if truth(b.where.eval(r, inner)) {
			out = append(out, item)
		}
	}
	r.makeItems(len(out))
	return out
}

// recursion returns what loop(…) does in a recursive loop: the loop's text for another value.
func (b forLoop) recursion(s *scope, depth int) *function {
	return &function{"loop", func(r *run, a args) value {
		v := a.bind("loop", "over")
		var w textWriter
		from := r.line
		r.line = b.line
		b.run(r, s, &w, v[0], depth+1)
		r.line = from
		return w.text()
	}}
}

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

func (l *loop) cycle(_ *run, a args) value {
	if len(a.values) == 0 || len(a.names) > 0 {
		panic(failf("loop.cycle takes the values to go through"))
	}
	return a.values[l.at%len(a.values)]
}

// changed reports whether it is called with other values than the last time.
func (l *loop) changed(r *run, a args) value {
	if l.seen != nil && r.equal(newTuple(l.seen...), newTuple(a.values...), 0) {
		return false
	}
	l.seen = append([]value{}, a.values...)
	return true
}

// bind makes a macro a function that sees the scope in which it stands.
func (m *macro) bind(s *scope) *function {
	return &function{m.name, func(r *run, a args) value {
		inner := &scope{parent: s}
		m.parameters(r, inner, a)
		from := r.line
		r.line = m.line
		t := r.capture(m.body, inner)
		r.line = from
		return t
	}}
}

// parameters sets a macro's parameters, and caller, from the arguments of a call.
func (m *macro) parameters(r *run, s *scope, a args) {
	if len(a.values) > len(m.params) {
		panic(failf("macro %q takes at most %d arguments, not %d", m.name, len(m.params), len(a.values)))
	}
	for i, p := range m.params {
		named, ok := a.take(p.name)
		switch {
		case i < len(a.values) && ok:
			panic(failf("macro %q has two values for %q", m.name, p.name))
		case i < len(a.values):
			named = a.values[i]
		case !ok && p.preset != nil:
			named = p.preset.eval(r, s)
		case !ok:
			named = undefined{why: fmt.Sprintf("parameter %q of macro %q was not given", p.name, m.name)}
		}
		s.set(p.name, named)
	}
	caller, ok := a.take("caller")
	if !ok {
		caller = undefined{why: fmt.Sprintf("macro %q was not called by a call tag", m.name)}
	}
	s.set("caller", caller)
	if len(a.names) > 0 {
		panic(failf("macro %q has no parameter %q", m.name, a.names[0]))
	}
}
