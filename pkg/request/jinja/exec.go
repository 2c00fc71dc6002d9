package jinja

func (b write) exec(r *run, _ *scope, w *textWriter) { r.put(w, b.text) }

func (b output) exec(r *run, s *scope, w *textWriter) {
	r.line = b.line
	for _, e := range b.values {
		r.putValue(w, e.eval(r, s))
	}
}

func (b jump) exec(r *run, _ *scope, _ *textWriter) { r.jump = &b }

func (b ifElse) exec(r *run, s *scope, w *textWriter) {
	r.line = b.line
	for i, test := range b.tests {
		if truth(test.eval(r, s)) {
			r.body(b.bodies[i], s, w)
			return
		}
	}
	r.body(b.otherwise, s, w)
}

func (b set) exec(r *run, s *scope, _ *textWriter) {
	r.line = b.line
	b.target.assign(r, s, b.value.eval(r, s))
}

func (b setBlock) exec(r *run, s *scope, _ *textWriter) {
	r.line = b.line
	body := r.capture(b.body, s)
	if r.jump != nil {
		return
	}
	var v value = body
	if b.value != nil {
		v = r.over(body, b.value, s)
	}
	b.target.assign(r, s, v)
}

func (b filterBlock) exec(r *run, s *scope, w *textWriter) {
	r.line = b.line
	if body := r.capture(b.body, s); r.jump == nil {
		r.putValue(w, r.over(body, b.value, s))
	}
}

// bodyName is where a captured body is for the filters over it; no variable can
// be called that.
const bodyName = "{body}"

// over evaluates filters over a captured body.
func (r *run) over(body Text, filters expression, s *scope) value {
	return filters.eval(r, &scope{parent: s, own: []binding{{bodyName, body}}})
}

func (captured) eval(r *run, s *scope) value { return variable(bodyName).eval(r, s) }

func (b with) exec(r *run, s *scope, w *textWriter) {
	inner := &scope{parent: s}
	r.line = b.line
	for i, e := range b.values {
		b.targets[i].assign(r, inner, e.eval(r, s))
	}
	r.body(b.body, inner, w)
}

func (m *macro) exec(r *run, s *scope, _ *textWriter) {
	r.line = m.line
	s.set(m.name, m.bind(s))
}

func (b callBlock) exec(r *run, s *scope, w *textWriter) {
	r.line = b.line
	a := r.arguments(b.call.args, s)
	a.names, a.named = append(a.names, "caller"), append(a.named, b.caller.bind(s))
	r.putValue(w, r.call(b.call.of.eval(r, s), a))
}

func (e variable) assign(_ *run, s *scope, v value) { s.set(string(e), v) }

func (t namespaceTarget) assign(r *run, s *scope, v value) {
	of := variable(t.of).eval(r, s)
	ns, ok := of.(*namespace)
	if !ok {
		panic(failf("%q is no namespace, so its attribute %q cannot be set", t.of, t.name))
	}
	ns.set(t.name, v)
}

func (ns *namespace) set(name string, v value) {
	if name[0] == '_' {
		panic(failf("a namespace has no attributes that begin with an underscore, such as %q", name))
	}
	ns.vars[name] = v
}

func (t tupleTarget) assign(r *run, s *scope, v value) {
	items := r.items(v)
	if len(items) != len(t) {
		panic(failf("%d values for %d names", len(items), len(t)))
	}
	for i, part := range t {
		part.assign(r, s, items[i])
	}
}
