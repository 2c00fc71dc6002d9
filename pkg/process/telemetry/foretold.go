package telemetry

import (
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// ForetoldMetrics are of rows that came beside those that a plan of a batch foretold. All gates of a process count
// together.
type ForetoldMetrics struct {
	off  *prometheus.GaugeVec
	rows *prometheus.CounterVec

	thin bool // layers are not told apart, and one's error is none of all

	mu     sync.Mutex
	layers map[int]*foretoldRows
}

// foretoldRows are those of a layer's functions since somebody foretold them.
type foretoldRows struct{ foretold, came []float64 }

func newForetoldMetrics() *ForetoldMetrics {
	return &ForetoldMetrics{
		off: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "foretold_error_ratio", Help: "How far the rows of a layer's functions are from those that its plan foretold: the mean absolute difference by the mean load, of the rows since the plan.",
		}, []string{"layer"}),
		rows:   counters("foretold_compared_rows_total", "Routed rows that were compared with foretold ones, by layer.", "layer"),
		layers: map[int]*foretoldRows{},
	}
}

func (m *ForetoldMetrics) all() []prometheus.Collector { return []prometheus.Collector{m.off, m.rows} }

// Compare counts rows that came for a layer's functions, in the order of what was foretold for each of them. Where
// another plan foretold something else, it begins anew.
func (m *ForetoldMetrics) Compare(layer int, foretold, came []float64) {
	if m.thin || layer >= maxLayers {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.layers[layer]
	if r == nil || !slices.Equal(r.foretold, foretold) {
		r = &foretoldRows{slices.Clone(foretold), make([]float64, len(foretold))}
		m.layers[layer] = r
	}
	name, rows := strconv.Itoa(layer), 0.0
	for i, n := range came {
		r.came[i] += n
		rows += n
	}
	m.rows.WithLabelValues(name).Add(rows)
	m.off.WithLabelValues(name).Set(r.off())
}

// Forget ends the comparison of a layer whose plan foretells nothing.
func (m *ForetoldMetrics) Forget(layer int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.layers[layer] != nil {
		delete(m.layers, layer)
		m.off.DeleteLabelValues(strconv.Itoa(layer))
	}
}

// off is the difference by the rows that came, of as many foretold ones.
func (r *foretoldRows) off() (ratio float64) {
	came, foretold := sum(r.came), sum(r.foretold)
	if came == 0 || foretold == 0 {
		return 0
	}
	for i, n := range r.came {
		ratio += math.Abs(n/came - r.foretold[i]/foretold)
	}
	return ratio
}

func sum(of []float64) (all float64) {
	for _, v := range of {
		all += v
	}
	return all
}
