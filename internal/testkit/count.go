package testkit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Count returns what a counter without labels has come to.
func Count(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].Metric[0].Counter.GetValue()
}
