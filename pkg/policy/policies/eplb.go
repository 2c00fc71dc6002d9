package policies

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

const (
	// eplbEvery are the seconds between its decisions in MoEless' evaluation (§6.1).
	eplbEvery = 600
	// eplbRedundant is how many redundant experts it has for each expert. The paper's costs
	// say so: EPLB's is (1 - 0.9268) / (1 - 0.9511) = 1.50 of Megatron-LM's in
	// (1 - 0.4319) / (1 - 0.2189) = 0.73 of its time, so in 2.06 times the memory.
	eplbRedundant = 1
)

// eplb returns DeepSeek's Expert Parallelism Load Balancer in four forms: with as many
// redundant experts as MoEless' evaluation implies, or as memory holds; its rows divided
// evenly, or by what accesses take.
func eplb() []registry.Policy {
	twice := eplbForm("eplb", "DeepSeek's EPLB with as many redundant experts as experts", eplbRedundant, false)
	twice.Scale, twice.Place, twice.InSteps = scale.EPLB, place.EPLB, true
	twice.Uses |= registry.Live | registry.Scaling | registry.Placing
	return []registry.Policy{
		twice,
		eplbForm("eplb+", "the same; rows are divided by what accesses take", eplbRedundant, true),
		eplbForm("eplb-full", "EPLB with as many redundant experts as memory holds", 0, false),
		eplbForm("eplb-full+", "the same; rows are divided by what accesses take", 0, true),
	}
}

func eplbForm(name, about string, redundant float64, divides bool) registry.Policy {
	return registry.Policy{
		Name: name, About: about, Uses: registry.Simulated, Forced: true, Start: true, Serverful: true, Divides: divides,
		Settings: []registry.Setting{
			{Name: "every", Kind: registry.Seconds, Default: eplbEvery, Min: 1, Max: 86400, Help: "time between decisions"},
			{Name: "redundant", Kind: registry.Count, Default: redundant, Min: 0, Max: 1024, Help: "redundant experts for each expert; 0: as many as memory holds"},
		},
		Make: func(p *registry.Policy, v registry.Values) {
			p.Every, p.Most = v["every"], redundantExperts(int(v["redundant"]))
			p.Decide = registry.Within(p.Most, scale.EPLB, place.EPLB)
		},
	}
}

// redundantExperts is how many redundant experts there are; nil: as many as memory holds.
func redundantExperts(redundant int) func(experts int) int {
	if redundant == 0 {
		return nil
	}
	return func(experts int) int { return redundant * experts }
}
