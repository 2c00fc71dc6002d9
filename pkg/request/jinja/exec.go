package jinja

import (
	"errors"
	"fmt"
)

var errBreak, errContinue = errors.New("break"), errors.New("continue")

func (b write) exec(r *run, _ *scope, w *textWriter) error { return r.put(w, b.text) }

func (b output) exec(r *run, s *scope, w *textWriter) error {
	for _, e := range b.values {
		v, err := e.eval(r, s)
		if err != nil {
			return at(b.line, err)
		}
		if err := r.putValue(w, v); err != nil {
			return at(b.line, err)
		}
	}
	return nil
}

func (b jump) exec(*run, *scope, *textWriter) error {
	if b.leaves {
		return errBreak
	}
	return errContinue
}

func (b ifElse) exec(r *run, s *scope, w *textWriter) error {
	for i, test := range b.tests {
		v, err := test.eval(r, s)
		if err != nil {
			return at(b.line, err)
		}
		if truth(v) {
			return r.body(b.bodies[i], s, w)
		}
	}
	return r.body(b.otherwise, s, w)
}

func (b set) exec(r *run, s *scope, _ *textWriter) error {
	v, err := b.value.eval(r, s)
	if err == nil {
		err = b.target.assign(r, s, v)
	}
	return at(b.line, err)
}

func (b setBlock) exec(r *run, s *scope, _ *textWriter) error {
	body, err := r.capture(b.body, s)
	if err != nil {
		return err
	}
	var v value = body
	if b.value != nil {
		if v, err = r.over(body, b.value, s); err != nil {
			return at(b.line, err)
		}
	}
	return at(b.line, b.target.assign(r, s, v))
}

func (b filterBlock) exec(r *run, s *scope, w *textWriter) error {
	body, err := r.capture(b.body, s)
	if err != nil {
		return err
	}
	v, err := r.over(body, b.value, s)
	if err != nil {
		return at(b.line, err)
	}
	return at(b.line, r.putValue(w, v))
}

// bodyName is where a captured body is for the filters over it; no variable can
// be called that.
const bodyName = "{body}"

// over evaluates filters over a captured body.
func (r *run) over(body Text, filters expression, s *scope) (value, error) {
	return filters.eval(r, &scope{parent: s, own: []binding{{bodyName, body}}})
}

func (captured) eval(r *run, s *scope) (value, error) { return variable(bodyName).eval(r, s) }

func (b with) exec(r *run, s *scope, w *textWriter) error {
	inner := &scope{parent: s}
	for i, e := range b.values {
		v, err := e.eval(r, s)
		if err == nil {
			err = b.targets[i].assign(r, inner, v)
		}
		if err != nil {
			return at(b.line, err)
		}
	}
	return r.body(b.body, inner, w)
}

func (m *macro) exec(_ *run, s *scope, _ *textWriter) error {
	return at(m.line, s.set(m.name, m.bind(s)))
}

func (b callBlock) exec(r *run, s *scope, w *textWriter) error {
	a, err := r.arguments(b.call.args, s)
	if err != nil {
		return at(b.line, err)
	}
	a.names, a.named = append(a.names, "caller"), append(a.named, b.caller.bind(s))
	of, err := b.call.of.eval(r, s)
	if err != nil {
		return at(b.line, err)
	}
	v, err := r.call(of, a)
	if err != nil {
		return at(b.line, err)
	}
	return at(b.line, r.putValue(w, v))
}

func (e variable) assign(_ *run, s *scope, v value) error { return s.set(string(e), v) }

func (t namespaceTarget) assign(r *run, s *scope, v value) error {
	of, err := variable(t.of).eval(r, s)
	if err != nil {
		return err
	}
	ns, ok := of.(*namespace)
	if !ok {
		return fmt.Errorf("%q is no namespace, so its attribute %q cannot be set", t.of, t.name)
	}
	return ns.set(t.name, v)
}

func (ns *namespace) set(name string, v value) error {
	if name[0] == '_' {
		return fmt.Errorf("a namespace has no attributes that begin with an underscore, such as %q", name)
	}
	ns.vars[name] = v
	return nil
}

func (t tupleTarget) assign(r *run, s *scope, v value) error {
	items, err := r.items(v)
	if err != nil {
		return err
	}
	if len(items) != len(t) {
		return fmt.Errorf("%d values for %d names", len(items), len(t))
	}
	for i, part := range t {
		if err := part.assign(r, s, items[i]); err != nil {
			return err
		}
	}
	return nil
}
