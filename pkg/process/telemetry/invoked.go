package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// InvokedMetrics are of invocations of functions that plans of batches rent (policy bo-ods).
type InvokedMetrics struct {
	calls, gigabyteSeconds *prometheus.CounterVec
}

// Whose gigabyte-seconds of invocations are.
const (
	billed = "billed"
	model  = "model"
)

func newInvokedMetrics() InvokedMetrics {
	return InvokedMetrics{
		calls:           counters("invocations_total", "Invocations of functions that a plan of a batch has rented, by transfer mode.", "mode"),
		gigabyteSeconds: counters("invocation_gb_seconds_total", "Gigabytes times seconds of these invocations, by transfer mode: billed, from their message to their last upload, or what the planner's model says for the same rows.", "mode", "of"),
	}
}

func (m InvokedMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.gigabyteSeconds}
}

func (m InvokedMetrics) begin() {
	for _, mode := range transferModes {
		m.calls.WithLabelValues(plan.TransferName(mode))
		for _, of := range []string{billed, model} {
			m.gigabyteSeconds.WithLabelValues(plan.TransferName(mode), of)
		}
	}
}

// Billed counts an invocation with what it was billed, and what the model says.
func (m InvokedMetrics) Billed(mode pb.TransferMode, gigabyteSeconds, says float64) {
	name := plan.TransferName(mode)
	m.calls.WithLabelValues(name).Inc()
	m.gigabyteSeconds.WithLabelValues(name, billed).Add(gigabyteSeconds)
	m.gigabyteSeconds.WithLabelValues(name, model).Add(says)
}
