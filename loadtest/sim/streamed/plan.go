package streamed

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Plan is what is rented: the main model's host, and functions of layers.
type Plan struct {
	Main   float64 // bytes
	Layers [][]Function
}

// Function is some experts of a layer that are rented together.
type Function struct {
	Experts  []int
	Memory   float64 // bytes of a replica
	Replicas int
}

// same reports whether it is the same function, whatever its replicas.
func (f *Function) same(as *Function) bool {
	return f.Memory == as.Memory && slices.Equal(f.Experts, as.Experts)
}

// local are the bytes of the experts on the main model's host.
func (p *Plan) local(s *serverless.System) float64 {
	n := s.Layers * s.Experts
	for _, functions := range p.Layers {
		for _, f := range functions {
			n -= len(f.Experts)
		}
	}
	return float64(n) * s.Expert
}

// planOf has a function of each layer's remote experts.
func planOf(p *serverless.Plan) *Plan {
	to := &Plan{Main: p.Main, Layers: make([][]Function, len(p.Layers))}
	for l := range p.Layers {
		f := Function{Memory: p.Layers[l].Memory, Replicas: p.Layers[l].Replicas}
		for e, away := range p.Layers[l].Remote {
			if away {
				f.Experts = append(f.Experts, e)
			}
		}
		if len(f.Experts) > 0 {
			to.Layers[l] = []Function{f}
		}
	}
	return to
}

// apart has a function of each expert.
func apart(s *serverless.System, main, memory float64) *Plan {
	to := &Plan{Main: main, Layers: make([][]Function, s.Layers)}
	for l := range to.Layers {
		for e := range s.Experts {
			to.Layers[l] = append(to.Layers[l], Function{Experts: []int{e}, Memory: memory, Replicas: 1})
		}
	}
	return to
}
