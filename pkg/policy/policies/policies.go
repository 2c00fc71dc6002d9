// Package policies registers all policies there are. A program that looks one up in
// pkg/policy/registry imports this package for its effect.
//
// Those that only join what pkg/policy/scale and pkg/policy/place decide are here.
package policies

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/copies"
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/policy/static"
)

// The order is that of reports.
func init() {
	registry.Register(slices.Concat(
		[]registry.Policy{static.Policy()},
		eplb(),
		[]registry.Policy{reactive(), oracle, MoEless()},
		copies.Policies(),
		[]registry.Policy{roundRobin},
	)...)
}

// MoEless returns MoEless (arXiv:2603.06350) as printed: algorithm 1 says how many replicas
// experts have, algorithm 2 where they are.
func MoEless() registry.Policy {
	return registry.Policy{
		Name: "moeless", About: "MoEless as printed: replicas of the most loaded expert until loads vary little, placed where it is warm",
		Decide: registry.Both(scale.MoEless, place.MoEless), Scale: scale.MoEless, Place: place.MoEless, InSteps: true,
		Uses: registry.Live | registry.Simulated | registry.Scaling | registry.Placing,
		Sees: registry.Ahead, ToZero: true,
	}
}

// reactiveEvery is Kubernetes' HPA's --horizontal-pod-autoscaler-sync-period, in seconds.
const reactiveEvery = 15

// reactive scales experts in proportion to the loads that they have had, as an autoscaler
// does that knows nothing of models.
func reactive() registry.Policy {
	return registry.Policy{
		Name: "reactive", About: "replicas in proportion to the loads before, as Kubernetes' autoscaler would have them",
		Decide: registry.Both(scale.Reactive, place.MoEless), Scale: scale.Reactive, Place: place.MoEless, InSteps: true,
		Uses:     registry.Live | registry.Simulated | registry.Scaling,
		Settings: []registry.Setting{{Name: "every", Kind: registry.Seconds, Default: reactiveEvery, Min: 0, Max: 86400, Uses: registry.Simulated, Help: "time between decisions"}},
		Make:     func(p *registry.Policy, v registry.Values) { p.Every = v["every"] },
	}
}

// oracle is the bound that nothing can beat: every host computes as many rows as the
// others, against the gate's choice.
var oracle = registry.Policy{
	Name: "oracle", About: "the bound of MoEless' evaluation: all hosts equally busy, against the gate's choice",
	Scale: scale.Oracle,
	Uses:  registry.Simulated, Sees: registry.Past, Serverful: true, Lossy: true,
}

// roundRobin deals replicas out to hosts whatever their loads: a step for placing alone.
var roundRobin = registry.Policy{
	Name: "round-robin", About: "replicas dealt out to hosts in turn, whatever their loads",
	Place: place.RoundRobin, Uses: registry.Placing,
}
