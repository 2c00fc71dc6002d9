package deploy

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	_ "github.com/switchyard/switchyard/services" // lists them
)

// Load tests know services as outsiders do, by names of their own: they run those without
// which no token flows, in the order of starting, and with them the control loop.
func TestFleet(t *testing.T) {
	way, loop := catalog.StartOrder(catalog.Way), catalog.StartOrder(catalog.Loop)
	if !slices.Equal(fleet.Kinds, way) || !slices.Equal(schedule.Services, way) || !slices.Equal(fleet.Loop, loop) {
		t.Errorf("load tests run %v, harm %v and may add %v; the services start as %v, then %v", fleet.Kinds, schedule.Services, fleet.Loop, way, loop)
	}
}
