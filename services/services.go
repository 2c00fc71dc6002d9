// Package services lists the services that a process can run. pkg/transport/catalog describes
// them to everything below.
package services

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/services/aggregator"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// all are in the order of the catalog.
var all = []service.Descriptor{
	tokenizer.Descriptor(),
	attention.Descriptor(),
	gate.Descriptor(),
	expert.Descriptor(),
	aggregator.Descriptor(),
	predictor.Descriptor(),
	scaler.Descriptor(),
	gateway.Descriptor(),
}

// All returns the services that a process can run, in the order of the catalog.
func All() []service.Descriptor { return slices.Clone(all) }

// Find returns the service of a name. The error says that there is none.
func Find(name string) (service.Descriptor, error) {
	at := slices.IndexFunc(all, func(d service.Descriptor) bool { return d.Name == name })
	if at < 0 {
		return service.Descriptor{}, fmt.Errorf("there is no service %.64q in this program; there are %v", name, catalog.Names())
	}
	return all[at], nil
}

// Add lists a service behind all others, here and in the catalog. Tests do, and take it back.
func Add(d service.Descriptor) (undo func()) {
	before, unlist := all, catalog.Add(d.Service)
	all = append(slices.Clip(all), d)
	return func() {
		unlist()
		all = before
	}
}
