package services_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/services"
)

// A folder that makes a service's descriptor has its line in both lists, in one order.
func TestListed(t *testing.T) {
	folders, err := filepath.Glob("*/descriptor.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range folders {
		folders[i] = filepath.Dir(folder)
	}
	var made []string
	for _, d := range services.All() {
		made = append(made, d.Name)
		if d.New == nil && d.Bare == nil {
			t.Errorf("no replica of %s can be made", d.Name)
		}
	}
	if listed := catalog.Names(); !slices.Equal(slices.Sorted(slices.Values(listed)), folders) || !slices.Equal(listed, made) {
		t.Errorf("folders %v make descriptors, the catalog has %v, of which %v can be made", folders, listed, made)
	}
}

// Load tests know services as outsiders do, by names of their own: they run those without
// which no token flows, in the order of starting, and with them the control loop.
func TestFleet(t *testing.T) {
	way, loop := catalog.StartOrder(catalog.Way), catalog.StartOrder(catalog.Loop)
	if !slices.Equal(fleet.Kinds, way) || !slices.Equal(schedule.Services, way) || !slices.Equal(fleet.Loop, loop) {
		t.Errorf("load tests run %v, harm %v and may add %v; the services start as %v, then %v", fleet.Kinds, schedule.Services, fleet.Loop, way, loop)
	}
}
