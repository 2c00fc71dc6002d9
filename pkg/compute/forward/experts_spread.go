package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// part is some panels of a group's matrix.
type part struct {
	group    *group
	from, to int
}

// runSpread takes all groups through their networks together, one step after the other, each cut over the pool.
func (s *ExpertScratch) runSpread(p workers, in *Routed, out []float32) {
	d, n := s.groups[0].expert.hidden(), len(s.order)
	s.round(func(g *group) *cpu.Matrix { return g.expert.in })
	s.eachPlace(p, n, d/2, func(g *group, from, to int) {
		x, _, _ := s.slices(g)
		s.gather(x, *g, in, from-g.from, to-g.from)
		if g.rounded != nil {
			g.rounded.Round(s.x[from*d:], d, from-g.from, to-g.from)
		}
	})
	s.matMuls(p, func(g *group) matMulOf {
		x, _, inner := s.slices(g)
		return matMulOf{inner, x, g.expert.in}
	})
	s.round(func(g *group) *cpu.Matrix { return g.expert.down })
	s.eachPlace(p, n, s.groups[0].expert.width(), s.activate)
	s.matMuls(p, func(g *group) matMulOf {
		_, y, inner := s.slices(g)
		return matMulOf{y, inner[(g.to-g.from)*g.expert.in.N:], g.expert.down}
	})
	s.round(func(*group) *cpu.Matrix { return nil })
	s.eachPlace(p, n, d/2, func(g *group, from, to int) {
		addBias(s.y[g.from*d:g.to*d], g.expert.downBias, from-g.from, to-g.from)
		_, y, _ := s.slices(g)
		s.scatter(y, *g, in, out, from-g.from, to-g.from)
	})
}

// round gives the groups memory for what their next matrix takes, and that of the one before back.
func (s *ExpertScratch) round(next func(g *group) *cpu.Matrix) {
	for i := range s.groups {
		g := &s.groups[i]
		if g.rounded != nil {
			g.rounded.Release()
			g.rounded = nil
		}
		if m := next(g); m != nil && m.RoundsRows() {
			g.rounded = m.NewRounded(g.to - g.from)
		}
	}
}

// activate fills what a group's second matrix takes at the places [from, to).
func (s *ExpertScratch) activate(g *group, from, to int) {
	_, _, inner := s.slices(g)
	e, rows := g.expert, g.to-g.from
	act, w := inner[rows*e.in.N:], e.width()
	from, to = from-g.from, to-g.from
	addBias(inner, e.inBias, from, to)
	e.activate(act, inner, from, to, w)
	if g.rounded != nil {
		g.rounded.Round(act[from*w:], w, from, to)
	}
}

// eachPlace runs f on ranges of places of order, each of one group.
func (s *ExpertScratch) eachPlace(p workers, n, nanos int, f func(g *group, from, to int)) {
	eachRow(p, n, nanos, func(from, to int) {
		for i := range s.groups {
			if g := &s.groups[i]; g.from < to && from < g.to {
				f(g, max(from, g.from), min(to, g.to))
			}
		}
	})
}

// matMulOf is what a group's matMul has.
type matMulOf struct {
	dst, x []float32
	w      *cpu.Matrix
}

// matMuls computes a matMul of each group, cut over the pool by panels.
func (s *ExpertScratch) matMuls(p workers, of func(g *group) matMulOf) {
	total := 0
	for i := range s.groups {
		g := &s.groups[i]
		total += matMulNanos(g.to-g.from, of(g).w)
	}
	parts := p.parts(total)
	if p.Pool == nil {
		parts = max(1, pieces(total))
	}
	s.parts = s.parts[:0]
	for i := range s.groups {
		g := &s.groups[i]
		w := of(g).w
		panels := w.Panels()
		n := even(panels, (matMulNanos(g.to-g.from, w)*parts+total/2)/max(1, total))
		for i := range n {
			s.parts = append(s.parts, part{g, i * panels / n, (i + 1) * panels / n})
		}
	}
	do := func(i int) {
		part := s.parts[i]
		m := of(part.group)
		if r := part.group.rounded; r != nil {
			cpu.MatMulRounded(m.dst, m.w.N, r, m.w, part.from, part.to)
			return
		}
		cpu.MatMul(m.dst, m.w.N, m.x, m.w.K, part.group.to-part.group.from, m.w, part.from, part.to)
	}
	if parts > 1 {
		p.run(len(s.parts), do)
		return
	}
	for i := range s.parts {
		do(i)
	}
}
