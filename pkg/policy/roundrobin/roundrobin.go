// Package roundrobin deals replicas out to hosts whatever their loads: a step for placing
// alone.
package roundrobin

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// Policy is the step.
func Policy() registry.Policy {
	return registry.Policy{
		Name: "round-robin", About: "replicas dealt out to hosts in turn, whatever their loads",
		Place: place.RoundRobin, Uses: registry.Placing,
	}
}
