package static

import (
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// Policy is the one without a control loop.
func Policy() registry.Policy {
	return registry.Policy{
		Name: plan.Static, About: "one replica of every expert, dealt out to hosts in turn; nothing follows loads",
		Scale: scale.Static,
		Uses:  registry.Live | registry.Simulated | registry.Hosts | registry.Scaling, Serverful: true,
	}
}
