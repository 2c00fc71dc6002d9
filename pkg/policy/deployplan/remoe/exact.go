package remoe

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// mostPlans is how many plans Exact tries at most.
const mostPlans = 1 << 18

// ErrTooMany says that an instance has too many plans to try them all.
var ErrTooMany = errors.New("too many plans to try them all")

// plans is how many plans an instance has, up to the most that Exact tries and one.
func plans(s *serverless.System) int {
	n := len(s.Main)
	for range s.Layers {
		each := 1 + ((1<<min(s.Experts, 20))-1)*len(s.Sizes())*s.Replicas
		if n > mostPlans/each {
			return mostPlans + 1
		}
		n *= each
	}
	return n
}

// Exact tries every plan of a small instance, whose routing is known, and is the cheapest that
// breaks no limit; nil where all do. Of equal ones the first counts: by the main model's memory,
// then layer by layer.
func Exact(s *serverless.System, d *serverless.Demand, o serverless.SLO, decided float64) (*serverless.Plan, error) {
	if plans(s) > mostPlans {
		return nil, fmt.Errorf("%w: there are more than %d; take fewer layers, experts, sizes or replicas", ErrTooMany, mostPlans)
	}
	x := search{System: s, d: d, o: o, decided: decided, options: choices(s), now: serverless.Plan{Layers: make([]serverless.Layer, s.Layers)}}
	for _, x.now.Main = range s.Main {
		x.begin()
		x.layer(0, spent{})
	}
	return x.best, nil
}

// choices are all that can be decided of a layer.
func choices(s *serverless.System) (all []serverless.Layer) {
	for set := range 1 << s.Experts {
		remote := make([]bool, s.Experts)
		for e := range remote {
			remote[e] = set>>e&1 == 1
		}
		if set == 0 {
			all = append(all, serverless.Layer{Remote: remote, Memory: s.Sizes()[0], Replicas: 1})
			continue
		}
		for _, memory := range s.Sizes() {
			for z := 1; z <= s.Replicas; z++ {
				all = append(all, serverless.Layer{Remote: remote, Memory: memory, Replicas: z})
			}
		}
	}
	return all
}

type search struct {
	*serverless.System
	d       *serverless.Demand
	o       serverless.SLO
	decided float64
	options []serverless.Layer
	spent   [][]spent // by each layer's options, with the main model's memory at hand
	now     serverless.Plan
	best    *serverless.Plan
	least   float64
}

// spent is what decisions on some layers take.
type spent struct{ dollars, prefill, decode float64 }

// begin tells what each layer's options take.
func (x *search) begin() {
	second := x.Second(x.now.Main, x.d.Prompt+x.d.Output)
	x.spent = make([][]spent, x.Layers)
	for l := range x.spent {
		for i := range x.options {
			b := x.Part(x.now.Main, &x.options[i], x.d, l)
			x.spent[l] = append(x.spent[l], spent{second*b.Seconds() + b.Remote, b.Prefill, b.Decode})
		}
	}
}

// layer tries a layer's options behind those that took so much; no option gives any of it back.
func (x *search) layer(l int, s spent) {
	const slack = 1 + 1e-6 // the limits themselves are checked in the end
	if x.best != nil && s.dollars >= x.least || s.prefill > x.o.TTFT*slack || s.decode > x.o.TPOT*float64(x.d.Output)*slack {
		return
	}
	if l < x.Layers {
		for i, one := range x.options {
			x.now.Layers[l] = one
			o := x.spent[l][i]
			x.layer(l+1, spent{s.dollars + o.dollars, s.prefill + o.prefill, s.decode + o.decode})
		}
		return
	}
	if len(x.Limits(&x.now, x.d, x.o, x.decided)) == 0 {
		x.best = &serverless.Plan{Main: x.now.Main, Layers: append([]serverless.Layer(nil), x.now.Layers...)}
		x.least = s.dollars
	}
}

// Few reports whether Exact can try all plans of a system.
func Few(s *serverless.System) bool { return plans(s) <= mostPlans }

// Replicated is a plan with the cheapest numbers of replicas that keep all limits, by known routing,
// as prices of prefill's time find them, layer by layer; the plan itself where none of these keeps them.
func Replicated(s *serverless.System, p *serverless.Plan, d *serverless.Demand, o serverless.SLO, decided float64) *serverless.Plan {
	second := s.Second(p.Main, d.Prompt+d.Output)
	best, least := p, math.Inf(1)
	try := func(price float64) {
		now := &serverless.Plan{Main: p.Main, Layers: slices.Clone(p.Layers)}
		for l := range now.Layers {
			one := now.Layers[l]
			cheapest, prefill := math.Inf(1), s.Prefill(p.Main, &one, &d.Layers[l])
			for z := 1; z <= s.Replicas && one.Size() > 0; z++ {
				one.Replicas = z
				b := s.Part(p.Main, &one, d, l)
				if v := second*b.Seconds() + b.Remote + price*b.Prefill; v < cheapest && !prefill.Heavy(z) {
					cheapest, now.Layers[l].Replicas = v, z
				}
			}
		}
		b := s.Serve(now, d, decided)
		if cost := b.Cost(); cost < least && len(s.Limits(now, d, o, decided)) == 0 {
			best, least = now, cost
		}
	}
	try(0)
	for price := second / 16; price < second*1e4; price *= 2 {
		try(price)
	}
	return best
}
