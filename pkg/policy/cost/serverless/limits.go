package serverless

import (
	"fmt"
	"slices"
)

// SLO is what a request has to keep, in seconds.
type SLO struct{ TTFT, TPOT float64 }

// Limit is a constraint of equation 10 that a plan breaks.
type Limit struct {
	Name        string // such as 10c
	Layer       int    // -1 where it is of none
	Needs, Most float64
}

// String tells a limit for people.
func (l Limit) String() string {
	what := map[string]string{
		"10b": "the first token takes %.4g s, and may take %.4g", "10c": "a further token takes %.4g s, and may take %.4g",
		"10d": "%.4g bytes of memory are none of the %.4g sizes", "10e": "the function needs %.4g bytes, and has %.4g",
		"10f": "the main model's host needs %.4g bytes, and has %.4g", "10g": "an invocation has %.4g bytes, and may have %.4g",
		"10h": "there are decisions on %.4g experts, and %.4g experts", "10i": "there are %.4g replicas, and may be 1 to %.4g",
	}[l.Name]
	text := fmt.Sprintf("constraint %s: "+what, l.Name, l.Needs, l.Most)
	if l.Layer >= 0 {
		text += fmt.Sprintf(" (layer %d)", l.Layer)
	}
	return text
}

// Shape says whether the plan itself cannot be, whatever the request.
func (l Limit) Shape() bool { return l.Name == "10d" || l.Name == "10h" || l.Name == "10i" }

// rounding is how far rounding may take a number over its limit.
const rounding = 1e-9

// Limits are the constraints 10b to 10i that a plan breaks for a request, the shape of the plan
// (10h, 10i, 10d) first: without one there is no bill.
func (s *System) Limits(p *Plan, d *Demand, o SLO, decided float64) (all []Limit) {
	return s.LimitsOf(p, d, o, func() Bill { return s.Serve(p, d, decided) })
}

// LimitsOf is Limits with a bill of the plan, which is asked for where there can be one.
func (s *System) LimitsOf(p *Plan, d *Demand, o SLO, bill func() Bill) (all []Limit) {
	over := func(name string, layer int, needs, most float64) {
		if needs > most*(1+rounding) {
			all = append(all, Limit{name, layer, needs, most})
		}
	}
	if len(p.Layers) != s.Layers {
		return []Limit{{"10h", -1, float64(len(p.Layers) * s.Experts), float64(s.Layers * s.Experts)}}
	}
	if !slices.Contains(s.Main, p.Main) {
		all = append(all, Limit{"10d", -1, p.Main, float64(len(s.Main))})
	}
	for i := range p.Layers {
		all = append(all, s.shape(&p.Layers[i], i)...)
	}
	if len(all) > 0 {
		return all
	}
	over("10f", -1, s.MainMemory(p.Layers, d.Prompt+d.Output), p.Main)
	for i := range p.Layers {
		l := &p.Layers[i]
		if l.Size() == 0 {
			continue
		}
		over("10e", i, s.FunctionMemory(l, &d.Layers[i]), l.Memory)
		prefill := s.Prefill(p.Main, l, &d.Layers[i])
		for _, one := range prefill.replicas(l.Replicas, s.Mean()) {
			if s.heavy(one) {
				over("10g", i, one.bytes, s.Functions.Payload)
			}
		}
	}
	b := bill()
	over("10b", -1, b.TTFT(), o.TTFT)
	over("10c", -1, b.TPOT(), o.TPOT)
	return all
}

// shape are the limits of a layer's decisions by themselves.
func (s *System) shape(l *Layer, i int) (all []Limit) {
	if len(l.Remote) != s.Experts {
		all = append(all, Limit{"10h", i, float64(len(l.Remote)), float64(s.Experts)})
	}
	if l.Replicas < 1 || l.Replicas > s.Replicas {
		all = append(all, Limit{"10i", i, float64(l.Replicas), float64(s.Replicas)})
	}
	if l.Size() > 0 && !slices.Contains(s.Sizes(), l.Memory) {
		all = append(all, Limit{"10d", i, l.Memory, float64(len(s.Sizes()))})
	}
	return all
}
