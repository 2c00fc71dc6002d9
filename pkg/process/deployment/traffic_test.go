package deployment

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

func TestTrafficByKindOfStream(t *testing.T) {
	registry := prometheus.NewRegistry()
	traffic := NewTraffic("yard", telemetry.NewMetrics(registry))
	traffic.Published("yard.hidden.demo.3", 10)
	traffic.Published("$KV.members.x", 99) // nobody's
	traffic.Published("yardstick.hidden.demo.3", 99)
	traffic.Handled("yard.hidden.demo.4", 20, bus.Late)
	traffic.Handled("yard.host.demo.expert-1", 0, bus.Late)
	traffic.Handled("yard.prompt.demo", 0, bus.Late)
	traffic.Redelivered("yard.sequence.demo", 2)
	traffic.Handled("yard.hidden.demo.4", 0, bus.Poisoned)
	traffic.Refused("_INBOX.x")
	traffic.Panicked("yard.hidden.demo.4")
	for name, want := range map[string]float64{
		"switchyard_bus_messages_total":      5,
		"switchyard_bus_payload_bytes_total": 30,
		"switchyard_late_total":              3,
		"switchyard_redeliveries_total":      1,
		"switchyard_poisoned_total":          1,
		"switchyard_refused_messages_total":  1,
		"switchyard_panics_total":            1,
	} {
		if got := total(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := traffic.Redeliveries(); n != 1 {
		t.Errorf("%d redeliveries", n)
	}
}

// Connections are counted by what they are, and those that come back.
func TestTrafficCountsConnections(t *testing.T) {
	registry := prometheus.NewRegistry()
	traffic := NewTraffic("yard", telemetry.NewMetrics(registry))
	check := func(when string, connected, away, reconnects float64) {
		t.Helper()
		got := []float64{
			gauge(t, registry, "switchyard_nats_connections", "connected"), gauge(t, registry, "switchyard_nats_connections", "away"),
			total(t, registry, "switchyard_nats_reconnects_total"),
		}
		if want := []float64{connected, away, reconnects}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check("before", 0, 0, 0)
	traffic.Linked(bus.None, bus.Opening)
	check("opening", 0, 1, 0)
	traffic.Linked(bus.Opening, bus.Connected)
	traffic.Linked(bus.None, bus.Opening)
	traffic.Linked(bus.Opening, bus.Connected)
	check("two", 2, 0, 0)
	traffic.Linked(bus.Connected, bus.Away)
	check("one is lost", 1, 1, 0)
	traffic.Linked(bus.Away, bus.Connected)
	check("it is back", 2, 0, 1)
	traffic.Linked(bus.Connected, bus.None)
	check("it is closed", 1, 0, 1)
}

// gauge is the one with a label's value.
func gauge(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && m.Label[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, label)
	return 0
}

// total adds up a counter over its labels.
func total(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
