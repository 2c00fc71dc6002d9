package probe

import (
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Members by service are told with these states.
const (
	stateReady    = "ready"
	stateUnready  = "unready"
	stateDraining = "draining"
)

// stateOf is a member's state.
func stateOf(m *pb.Member) string {
	switch {
	case m.GetDraining():
		return stateDraining
	case m.GetReady():
		return stateReady
	}
	return stateUnready
}

// memberReadings counts the members by service and state; a service that has no rights is none.
func memberReadings(seen []*pb.Member) (all []telemetry.Reading) {
	for _, service := range catalog.Names() {
		counts := map[string]float64{}
		for _, m := range members.OfService(seen, service) {
			counts[stateOf(m)]++
		}
		for _, state := range []string{stateReady, stateUnready, stateDraining} {
			all = append(all, telemetry.Reading{Labels: []string{service, state}, Value: counts[state]})
		}
	}
	return all
}
