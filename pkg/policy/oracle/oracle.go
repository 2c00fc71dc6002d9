// Package oracle is the bound that nothing can beat: every host computes as many rows as
// the others, against the gate's choice.
package oracle

import (
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// Policy is the bound.
func Policy() registry.Policy {
	return registry.Policy{
		Name: "oracle", About: "the bound of MoEless' evaluation: all hosts equally busy, against the gate's choice",
		Scale: scale.Oracle,
		Uses:  registry.Simulated, Sees: registry.Past, Serverful: true, Lossy: true,
	}
}
