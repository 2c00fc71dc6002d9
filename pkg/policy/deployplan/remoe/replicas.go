package remoe

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Rescaled is a plan with the numbers of replicas that a demand wants, its experts and their memory
// left as they are.
func Rescaled(s *serverless.System, p *serverless.Plan, d *serverless.Demand, r Request, b Bound) *serverless.Plan {
	to := &serverless.Plan{Main: p.Main, Layers: slices.Clone(p.Layers)}
	replicas(s, to, d, r, b)
	return to
}

// replicas decides z (section IV-F): as many as the payload needs, then where the cost falls most
// until the TTFT holds by theorem 4, and then as long as that makes the request cheaper.
func replicas(s *serverless.System, p *serverless.Plan, d *serverless.Demand, r Request, b Bound) {
	x := newScaler(s, p, d, b)
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
	second float64              // H^w
	beside float64              // seconds of a layer's prefill beside its experts
	parts  []serverless.Prefill // of each layer
	one    []float64            // what an expert of each takes at most: N^up rows
	gains  []float64
	of     []int // the replicas that gains are for
}

func newScaler(s *serverless.System, p *serverless.Plan, d *serverless.Demand, b Bound) *scaler {
	n := len(p.Layers)
	x := &scaler{
		System: s, p: p, d: d, second: s.Second(p.Main, d.Prompt+d.Output), beside: s.NonExpert(d.Prompt),
		parts: make([]serverless.Prefill, n), one: make([]float64, n), gains: make([]float64, n), of: make([]int, n),
	}
	rows := b.Rows(d.Prompt, s.TopK, s.Experts, 1)
	for l := range p.Layers {
		one := &p.Layers[l]
		x.parts[l], x.one[l] = s.Prefill(p.Main, one, &d.Layers[l]), s.Compute(one.Memory, rows)+rows*s.Travel()
	}
	return x
}

// payload sets the fewest replicas of which none has more bytes than an invocation takes, unless
// it has one expert alone.
func (x *scaler) payload(l int) {
	one := &x.p.Layers[l]
	for one.Replicas = 1; one.Replicas < x.System.Replicas && x.parts[l].Heavy(one.Replicas); one.Replicas++ {
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
	part := &x.parts[l]
	seconds := part.Local
	if part.Remote > 0 {
		seconds = max(seconds, replicated(part.Remote, min(part.Remote, x.one[l]), x.Overhead(), z))
	}
	return seconds + 2*x.Move(x.d.Prompt) + x.beside
}

// potential is the layer that gains most by one more replica, ϖ of equation 15; -1 where none may
// have more. With quicker only layers count that the replica makes quicker in the worst case.
func (x *scaler) potential(quicker bool) (best int, gain float64) {
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
	seconds, functions, _ := x.parts[l].Experts(z, x.d.Prompt, x.Mean())
	return (seconds+x.beside)*x.second + x.Functions.Run(x.p.Layers[l].Memory, functions)
}
