// Package moeless is MoEless (arXiv:2603.06350) as printed: algorithm 1 says how many
// replicas experts have (pkg/policy/scale), algorithm 2 where they are (pkg/policy/place).
package moeless

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// Policy is MoEless as printed.
func Policy() registry.Policy {
	return registry.Policy{
		Name: "moeless", About: "MoEless as printed: replicas of the most loaded expert until loads vary little, placed where it is warm",
		Decide: registry.Both(scale.MoEless, place.MoEless), Scale: scale.MoEless, Place: place.MoEless, InSteps: true,
		Uses: registry.Live | registry.Simulated | registry.Scaling | registry.Placing,
		Sees: registry.Ahead, ToZero: true,
	}
}
