package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Table is gauges with several labels, or none, of something that is kept elsewhere,
// read as a Mirror's are. Where several replicas of a process tell of one thing, the
// largest value is shown: they look at the same.
type Table struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	last  int
	reads map[int]func() []Reading
}

// Reading is one gauge: its value, and those of the labels in their order.
type Reading struct {
	Labels []string
	Value  float64
}

// Up reads whether something works, 1 or 0, by one label, as far as that is known.
func Up(label string, up func() (is, known bool)) func() []Reading {
	return func() []Reading {
		is, known := up()
		if !known {
			return nil
		}
		return []Reading{{[]string{label}, flag(is)}}
	}
}

func newTable(name, help string, labels ...string) *Table {
	return &Table{
		desc:  prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil),
		reads: map[int]func() []Reading{},
	}
}

// Follow shows what read returns until stop is called.
func (t *Table) Follow(read func() []Reading) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	id := t.last
	t.reads[id] = read
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.reads, id)
	}
}

// Describe is for the registry.
func (t *Table) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect is for the registry.
func (t *Table) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	reads := slices.Collect(maps.Values(t.reads))
	t.mu.Unlock()
	most := map[string]Reading{}
	for _, read := range reads {
		for _, r := range read() {
			key := strings.Join(r.Labels, "\x00")
			if there, ok := most[key]; !ok || r.Value > there.Value {
				most[key] = r
			}
		}
	}
	for _, r := range most {
		out <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, r.Value, r.Labels...)
	}
}
