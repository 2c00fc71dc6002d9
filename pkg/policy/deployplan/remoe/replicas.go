package remoe

import "github.com/switchyard/switchyard/pkg/policy/cost/serverless"

// replicas decides z (section IV-F): as many as the payload needs, then where the cost falls most
// until the TTFT holds by theorem 4, and then as long as that makes the request cheaper.
func replicas(s *serverless.System, p *serverless.Plan, d *serverless.Demand, r Request, b Bound) {
	x := scaler{System: s, p: p, d: d, second: s.Second(p.Main, d.Prompt+d.Output), one: b.Rows(d.Prompt, s.TopK, s.Experts, 1)}
	for l := range p.Layers {
		x.payload(l)
	}
	cold, _ := s.Start(p, d.Prompt+d.Output, r.Decided)
	for range s.Layers * s.Replicas {
		if cold+x.worst() <= r.TTFT {
			break
		}
		l, _ := x.potential(true)
		if l < 0 {
			break
		}
		p.Layers[l].Replicas++
	}
	for range s.Layers * s.Replicas {
		l, gain := x.potential(false)
		if l < 0 || gain <= 0 {
			return
		}
		p.Layers[l].Replicas++
	}
}

// scaler adds replicas to a plan.
type scaler struct {
	*serverless.System
	p      *serverless.Plan
	d      *serverless.Demand
	second float64 // H^w
	one    float64 // N^up: rows of an expert at most
	gains  []float64
	of     []int // the replicas that gains are for
}

// payload sets the fewest replicas of which none has more bytes than an invocation takes, unless
// it has one expert alone.
func (x *scaler) payload(l int) {
	one := &x.p.Layers[l]
	for one.Replicas = 1; one.Replicas < x.System.Replicas && x.Heavy(one, &x.d.Layers[l]); one.Replicas++ {
	}
}

// worst is what prefill takes at most, by theorem 4.
func (x *scaler) worst() (seconds float64) {
	for l := range x.p.Layers {
		seconds += x.worstLayer(l, x.p.Layers[l].Replicas)
	}
	return seconds
}

func (x *scaler) worstLayer(l, z int) float64 {
	one, r := &x.p.Layers[l], &x.d.Layers[l]
	seconds := x.PrefillLocal(x.p.Main, one, r)
	all := 0.0
	for e, away := range one.Remote {
		if n := r.Prefill[e]; away && n > 0 {
			all += x.Compute(one.Memory, n) + n*x.Travel()
		}
	}
	if all > 0 {
		most := x.Compute(one.Memory, x.one) + x.one*x.Travel()
		seconds = max(seconds, replicated(all, min(all, most), x.Overhead(), z))
	}
	return seconds + 2*x.Move(x.d.Prompt) + x.NonExpert(x.d.Prompt)
}

// potential is the layer that gains most by one more replica, ϖ of equation 15; -1 where none may
// have more. With quicker only layers count that the replica makes quicker in the worst case.
func (x *scaler) potential(quicker bool) (best int, gain float64) {
	if x.gains == nil {
		x.gains, x.of = make([]float64, x.Layers), make([]int, x.Layers)
	}
	best = -1
	for l := range x.p.Layers {
		one := &x.p.Layers[l]
		z := one.Replicas
		if one.Size() == 0 || z >= x.System.Replicas || quicker && x.worstLayer(l, z+1) >= x.worstLayer(l, z) {
			continue
		}
		if x.of[l] != z {
			x.of[l], x.gains[l] = z, x.dollars(l, z)-x.dollars(l, z+1)
		}
		if best < 0 || x.gains[l] > gain {
			best, gain = l, x.gains[l]
		}
	}
	return best, gain
}

// dollars is what a layer costs in prefill with so many replicas.
func (x *scaler) dollars(l, z int) float64 {
	one := x.p.Layers[l]
	one.Replicas = z
	seconds, functions, _ := x.PrefillLayer(x.p.Main, &one, &x.d.Layers[l], x.d.Prompt, x.Mean())
	return seconds*x.second + x.Functions.Run(one.Memory, functions)
}
