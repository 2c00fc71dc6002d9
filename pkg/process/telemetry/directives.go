package telemetry

import "github.com/prometheus/client_golang/prometheus"

// DirectiveMetrics are of how far brownouts go, and why.
type DirectiveMetrics struct {
	// Thresholds are what attention stamps on its steps, and P90 what the controller decides by,
	// by phase. Of several replicas in a process the largest is shown.
	Thresholds, P90 *Table
	// Ignored counts messages and times of latencies that do not count.
	Ignored prometheus.Counter

	changes *prometheus.CounterVec
}

func newDirectiveMetrics() DirectiveMetrics {
	return DirectiveMetrics{
		Thresholds: newTable("brownout_threshold_ratio", "Least share of a layer's routed rows that keep their own experts, as attention stamps it on its steps, by phase.", "phase"),
		P90:        newTable("brownout_step_p90_seconds", "90th percentile of steps' times by which the controller of brownouts decided last, by phase; absent without steps.", "phase"),
		Ignored:    counter("brownout_ignored_latencies_total", "Messages and times of steps that the controller of brownouts did not believe, or was too slow for."),
		changes:    counters("brownout_changes_total", "Moves of thresholds by the controller of brownouts, by phase and direction: up or down.", "phase", "direction"),
	}
}

func (m DirectiveMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.Thresholds, m.P90, m.Ignored, m.changes}
}

func (m DirectiveMetrics) begin() {
	for _, phase := range []string{"prefill", "decode"} {
		m.changes.WithLabelValues(phase, "up")
		m.changes.WithLabelValues(phase, "down")
	}
}

// Changed counts a move of a threshold.
func (m DirectiveMetrics) Changed(phase, direction string) {
	m.changes.WithLabelValues(phase, direction).Inc()
}
