package telemetry

import (
	"fmt"
	"slices"
	"strings"
)

// Detail says how far metrics are told apart that grow with a model.
type Detail string

// The details, from most metrics to fewest.
const (
	ByExpert Detail = "expert" // by layer, and by expert where there is one
	ByLayer  Detail = "layer"  // by layer
	InAll    Detail = "total"  // of all layers together
)

// Details are all of them.
var Details = []Detail{ByExpert, ByLayer, InAll}

func (d Detail) check() error {
	if d == "" || slices.Contains(Details, d) {
		return nil
	}
	var names []string
	for _, known := range Details {
		names = append(names, string(known))
	}
	return fmt.Errorf("--metrics-detail is %q; it must be one of %s", string(d), strings.Join(names, ", "))
}

// together is the label of layers and experts that are not told apart.
const together = "all"

// thin leaves out what d does not tell apart. It is called before anybody counts.
func (m *Metrics) thin(d Detail) {
	m.detail = d
	for _, byLayer := range []*Mirror{m.Scaler.CV, m.Scaler.Balancedness, m.Scaler.PlanAge} {
		byLayer.thin = d == InAll // a layer's figure is none of all layers
	}
	m.Foretold.thin = d == InAll
}

// layer is a layer's label.
func (m *Metrics) layer(layer int) string {
	if m.detail == InAll {
		return together
	}
	return bounded(layer, maxLayers)
}

// expert is an expert's label.
func (m *Metrics) expert(expert int) string {
	if m.detail == ByLayer || m.detail == InAll {
		return together
	}
	return bounded(expert, maxExperts)
}
