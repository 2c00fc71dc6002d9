// Package eplb is DeepSeek's Expert Parallelism Load Balancer in four forms: with as many
// redundant experts as MoEless' evaluation implies, or as memory holds; its rows divided
// evenly, or by what accesses take.
package eplb

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

const (
	// every are the seconds between its decisions in MoEless' evaluation (§6.1).
	every = 600
	// redundant is how many redundant experts it has for each expert. The paper's costs
	// say so: EPLB's is (1 - 0.9268) / (1 - 0.9511) = 1.50 of Megatron-LM's in
	// (1 - 0.4319) / (1 - 0.2189) = 0.73 of its time, so in 2.06 times the memory.
	redundant = 1
)

// Policies are all forms.
func Policies() []registry.Policy {
	twice := form("eplb", "DeepSeek's EPLB with as many redundant experts as experts", redundant, false)
	twice.Scale, twice.Place, twice.InSteps = scale.EPLB, place.EPLB, true
	twice.Uses |= registry.Live | registry.Scaling | registry.Placing
	return []registry.Policy{
		twice,
		form("eplb+", "the same; rows are divided by what accesses take", redundant, true),
		form("eplb-full", "EPLB with as many redundant experts as memory holds", 0, false),
		form("eplb-full+", "the same; rows are divided by what accesses take", 0, true),
	}
}

func form(name, about string, redundant float64, divides bool) registry.Policy {
	return registry.Policy{
		Name: name, About: about, Uses: registry.Simulated, Forced: true, Start: true, Serverful: true, Divides: divides,
		Settings: []registry.Setting{
			{Name: "every", Kind: registry.Seconds, Default: every, Min: 1, Max: 86400, Help: "time between decisions"},
			{Name: "redundant", Kind: registry.Count, Default: redundant, Min: 0, Max: 1024, Help: "redundant experts for each expert; 0: as many as memory holds"},
		},
		Make: func(p *registry.Policy, v registry.Values) {
			p.Every, p.Most = v["every"], most(int(v["redundant"]))
			p.Decide = registry.Within(p.Most, scale.EPLB, place.EPLB)
		},
	}
}

// most is how many redundant experts there are; nil: as many as memory holds.
func most(redundant int) func(experts int) int {
	if redundant == 0 {
		return nil
	}
	return func(experts int) int { return redundant * experts }
}
