package telemetry

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Mirror is gauges of something that is kept elsewhere. They are read when they
// are asked for, so that they are as true as what they show; who does not know
// tells nothing, and no gauge is there then.
type Mirror struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	thin bool // it is left out

	mu    sync.Mutex
	last  int
	reads map[int]func() map[string]float64
}

// newMirror declares gauges with one label.
func newMirror(name, help, label string) *Mirror {
	return mirrorOf(prometheus.GaugeValue, nil, name, help, label)
}

// newCounterMirror declares counters of one tier of memory. One begins anew with its host.
func newCounterMirror(tier prometheus.Labels, name, help, label string) *Mirror {
	return mirrorOf(prometheus.CounterValue, tier, name, help, label)
}

func mirrorOf(kind prometheus.ValueType, always prometheus.Labels, name, help, label string) *Mirror {
	return &Mirror{
		desc: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{label}, always), kind: kind,
		reads: map[int]func() map[string]float64{},
	}
}

// Follow shows what read returns, values by the label's value, until stop is
// called. Of several, for replicas in one process, the sums are shown.
func (m *Mirror) Follow(read func() map[string]float64) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	id := m.last
	m.reads[id] = read
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.reads, id)
	}
}

// Describe is for the registry.
func (m *Mirror) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect is for the registry.
func (m *Mirror) Collect(out chan<- prometheus.Metric) {
	if m.thin {
		return
	}
	m.mu.Lock()
	reads := slices.Collect(maps.Values(m.reads))
	m.mu.Unlock()
	sums := map[string]float64{}
	for _, read := range reads {
		for value, v := range read() {
			sums[value] += v
		}
	}
	for value, v := range sums {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, value)
	}
}
