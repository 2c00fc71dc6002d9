package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MapMetrics are of predictors that foretell by expert maps.
type MapMetrics struct {
	search, alike *prometheus.HistogramVec
	kept, bytes   prometheus.Gauge
	hints         prometheus.Counter
}

func newMapMetrics() MapMetrics {
	return MapMetrics{
		search: histograms("map_search_seconds", "Time to search expert maps for the rows of one message: by what they begin with (semantic), or by the gates that they have passed (trajectory).", stageBuckets, "kind"),
		alike:  histograms("map_similarity", "Similarity of a row and the expert map that was found, from 0 to 1: the less, the more experts are hinted at (1 less it is the share of a layer's probability).", prometheus.LinearBuckets(0.1, 0.1, 10), "kind"),
		kept:   prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "expert_maps", Help: "Expert maps that a predictor keeps, of all tenants."}),
		bytes:  prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "expert_maps_bytes", Help: "Memory of the expert maps that a predictor keeps."}),
		hints:  counter("hints_sent_total", "Hints that a predictor has sent to expert hosts."),
	}
}

func (m MapMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.search, m.alike, m.kept, m.bytes, m.hints}
}

// Searched observes the seconds that a message's rows were searched for.
func (m MapMetrics) Searched(kind string, seconds float64) {
	m.search.WithLabelValues(kind).Observe(seconds)
}

// Found observes how similar the map is that was found.
func (m MapMetrics) Found(kind string, similarity float64) {
	m.alike.WithLabelValues(kind).Observe(max(0, similarity))
}

// Kept says how many maps there are.
func (m MapMetrics) Kept(maps int, bytes int64) {
	m.kept.Set(float64(maps))
	m.bytes.Set(float64(bytes))
}

// Sent counts hints.
func (m MapMetrics) Sent(n int) { m.hints.Add(float64(n)) }
