package protocol

import "slices"

// step is one thing that can happen.
type step struct {
	name string
	to   *state
}

// model is all states.
type model struct {
	rules     rules
	states    map[string]from
	ends      int
	violation string
	trace     []string
}

// from is how a state was reached first.
type from struct{ before, by string }

// explore visits every state, nearest first, and stops at the first violation.
func explore(r rules, b budget) *model {
	m := &model{rules: r, states: map[string]from{}}
	first := &state{log: []message{{kind: accept}}, left: b}
	m.states[first.key()] = from{}
	for queue := []*state{first}; len(queue) > 0 && m.violation == ""; queue = queue[1:] {
		s := queue[0]
		key := s.key()
		steps := m.steps(s)
		if m.violation = s.check(); m.violation == "" {
			m.violation = m.ended(s, steps)
		}
		if m.violation != "" {
			m.trace = m.way(key)
		}
		for _, next := range steps {
			to := next.to.key()
			if _, known := m.states[to]; !known {
				m.states[to] = from{key, next.name}
				queue = append(queue, next.to)
			}
		}
	}
	return m
}

// ended looks at a state in which nothing can happen any more.
func (m *model) ended(s *state, steps []step) string {
	if len(steps) > 0 {
		return ""
	}
	if m.ends++; !s.acked {
		return "nobody goes on with a request that has no end"
	}
	return ""
}

// way is how a state is reached.
func (m *model) way(key string) (names []string) {
	for at := m.states[key]; at.by != ""; at = m.states[at.before] {
		names = append(names, at.by)
	}
	slices.Reverse(names)
	return names
}
