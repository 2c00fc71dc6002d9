package remoe

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Decision is a plan of a request, and how it came about.
type Decision struct {
	serverless.Plan
	Main     Main
	Memory   Memory
	Expected serverless.Bill    // by what was foretold
	Limits   []serverless.Limit // that the plan is expected to break: none where the worst case holds
}

// Decide plans a request of which an activation is foretold.
func Decide(s *serverless.System, r Request, activation []float32, set Settings) (*Decision, error) {
	m, err := Preallocate(s, r, set)
	if err != nil {
		return nil, err
	}
	return After(s, r, m, activation, set, false)
}

// After plans what is left when the main model has been decided on. With exact it also finds the
// best sizes that functions could have, for comparison.
func After(s *serverless.System, r Request, m Main, activation []float32, set Settings, exact bool) (*Decision, error) {
	if len(activation) != s.Layers*s.Experts {
		return nil, fmt.Errorf("the activation has %d values; %d layers of %d experts need %d", len(activation), s.Layers, s.Experts, s.Layers*s.Experts)
	}
	d := s.Expected(activation, r.Prompt, r.Output)
	if err := d.Check(s.Model); err != nil {
		return nil, fmt.Errorf("what is foretold: %w", err)
	}
	return planned(s, r, m, &d, set, exact)
}

// Known is After for a request whose rows are known.
func Known(s *serverless.System, r Request, m Main, d *serverless.Demand, set Settings) (*Decision, error) {
	return planned(s, r, m, d, set, false)
}

// planned decides x, y and z by a demand.
func planned(s *serverless.System, r Request, m Main, d *serverless.Demand, set Settings, exact bool) (*Decision, error) {
	return layered(s, r, m, d, set, exact, func(int) int { return m.Away })
}

// layered is planned with so many remote experts of each layer.
func layered(s *serverless.System, r Request, m Main, d *serverless.Demand, set Settings, exact bool, away func(layer int) int) (*Decision, error) {
	sizes := s.Sizes()
	to := &Decision{Main: m}
	to.Plan = *uniform(s, 0, sizes[len(sizes)-1], 1)
	to.Plan.Main = m.Memory
	for l := range to.Layers {
		to.Layers[l].Remote = selected(&d.Layers[l], away(l))
	}
	set.done(StageExperts)
	var err error
	if to.Memory, err = memory(s, &to.Plan, d, r.SLO, set.Sizing, exact); err != nil {
		return nil, err
	}
	set.done(StageMemory)
	replicas(s, &to.Plan, d, r, set.Bound)
	set.done(StageReplicas)
	to.Expected = s.Serve(&to.Plan, d, r.Decided)
	to.Limits = s.LimitsOf(&to.Plan, d, r.SLO, func() serverless.Bill { return to.Expected })
	return to, nil
}
