// Package reactive scales experts in proportion to the loads that they have had, as an
// autoscaler does that knows nothing of models.
package reactive

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// every is Kubernetes' HPA's --horizontal-pod-autoscaler-sync-period, in seconds.
const every = 15

// Policy is the autoscaler.
func Policy() registry.Policy {
	return registry.Policy{
		Name: "reactive", About: "replicas in proportion to the loads before, as Kubernetes' autoscaler would have them",
		Decide: registry.Both(scale.Reactive, place.MoEless), Scale: scale.Reactive, Place: place.MoEless, InSteps: true,
		Uses:     registry.Live | registry.Simulated | registry.Scaling,
		Settings: []registry.Setting{{Name: "every", Kind: registry.Seconds, Default: every, Min: 0, Max: 86400, Uses: registry.Simulated, Help: "time between decisions"}},
		Make:     func(p *registry.Policy, v registry.Values) { p.Every = v["every"] },
	}
}
