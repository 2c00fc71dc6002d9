package telemetry

import "github.com/prometheus/client_golang/prometheus"

// BrownoutMetrics are what brownouts did to rows.
type BrownoutMetrics struct {
	slots    *prometheus.CounterVec
	accesses *prometheus.CounterVec
	united   *prometheus.CounterVec
	// Waits counts rows' groups that are computed again and wait for a united expert that no host
	// has warm.
	Waits prometheus.Counter
}

func newBrownoutMetrics() BrownoutMetrics {
	return BrownoutMetrics{
		slots:    counters("brownout_slots_total", "Slots of rows in groups that a brownout changed, by what became of them: own, united, left_out; and cold, those that were to have a united expert which no host has warm, in all groups.", "fate"),
		accesses: counters("brownout_accesses_total", "Experts, and united ones, that had rows of a layer in groups under a brownout's stamp: before the split, as without a brownout, and after it.", "split"),
		united:   counters("united_rows_total", "Routed rows that united experts computed, by layer and way.", "layer", "way"),
		Waits:    counter("replay_waits_total", "Groups of rows that are computed again, and wait because no host has their united experts warm."),
	}
}

func (b BrownoutMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{b.slots, b.accesses, b.united, b.Waits}
}

func (b BrownoutMetrics) begin() {
	for _, fate := range []string{"own", "united", "left_out", "cold"} {
		b.Slots(fate)
	}
	b.Accesses("before")
	b.Accesses("after")
}

// Slots counts slots of a fate.
func (b BrownoutMetrics) Slots(fate string) prometheus.Counter { return b.slots.WithLabelValues(fate) }

// Accesses counts experts that had rows, before the split or after it.
func (b BrownoutMetrics) Accesses(split string) prometheus.Counter {
	return b.accesses.WithLabelValues(split)
}

// UnitedRows counts the routed rows of a layer's united experts of a way.
func (m *Metrics) UnitedRows(layer, way int) prometheus.Counter {
	return m.Brownout.united.WithLabelValues(m.layer(layer), bounded(way, maxExperts))
}
