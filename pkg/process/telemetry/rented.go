package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RentedMetrics are of requests whose experts are rented as functions (policy remoe), by what the
// scaler that plans hears of them.
type RentedMetrics struct {
	// Requests counts those that have ended, and were billed.
	Requests prometheus.Counter
	// Unbilled counts those whose end was not heard.
	Unbilled prometheus.Counter
	// Splits counts invocations that gates have made more, as rows were more than one takes.
	Splits prometheus.Counter
	// Divergence is how far the activation that is foretold is from that of the rows that came, in
	// bits.
	Divergence *Table

	gigabyteSeconds, dollars, missed *prometheus.CounterVec
}

// RentedParts are what is rented: the GPU of attention, the host beside it, and functions.
var RentedParts = []string{"gpu", "host", "functions"}

// Objectives are those of an SLO.
var Objectives = []string{"ttft", "tpot"}

func newRentedMetrics() RentedMetrics {
	return RentedMetrics{
		Requests:        counter("rented_requests_total", "Requests that have ended and were billed, with policy remoe."),
		Unbilled:        counter("rented_requests_unbilled_total", "Requests whose end the planner has not heard, so that they were not billed, with policy remoe."),
		Splits:          counter("rented_payload_splits_total", "Invocations that gates have made more than one a function and replica, since the rows were more than the payload that one takes, with policy remoe."),
		Divergence:      newTable("rented_activation_divergence_bits", "Jensen-Shannon divergence of the activation that is foretold of the last requests and that of the rows that came, in the mean of layers."),
		gigabyteSeconds: counters("rented_gb_seconds_total", "Gigabytes times seconds that requests were billed for, by part: gpu (attention's memory), host (of the experts beside it) or functions.", "part"),
		dollars:         counters("rented_dollars_total", "Dollars that requests were billed for, by part.", "part"),
		missed:          counters("rented_slo_missed_total", "Requests that ended and had missed their objective, with policy remoe: ttft or tpot.", "objective"),
	}
}

func (m RentedMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.Requests, m.Unbilled, m.Splits, m.Divergence, m.gigabyteSeconds, m.dollars, m.missed}
}

func (m RentedMetrics) begin() {
	for _, part := range RentedParts {
		m.Billed(part, 0, 0)
	}
	for _, objective := range Objectives {
		m.missed.WithLabelValues(objective)
	}
}

// Billed counts a part of a request's bill.
func (m RentedMetrics) Billed(part string, gigabyteSeconds, dollars float64) {
	m.gigabyteSeconds.WithLabelValues(part).Add(gigabyteSeconds)
	m.dollars.WithLabelValues(part).Add(dollars)
}

// Missed counts a request that has missed an objective.
func (m RentedMetrics) Missed(objective string) { m.missed.WithLabelValues(objective).Inc() }
