package telemetry

import "github.com/prometheus/client_golang/prometheus"

// waits are how long requests wait, and canaries take.
type waits struct {
	queue, canary prometheus.Histogram
}

func newWaits() waits {
	return waits{
		queue:  histogram("queue_wait_seconds", "Time from a request's acceptance to its turn in attention.", waitBuckets),
		canary: histogram("canary_seconds", "Time from a canary's sending to its answer.", fineBuckets),
	}
}

// waitBuckets reach from 1 ms to more than two hours, longer than a request may take by default.
var waitBuckets = prometheus.ExponentialBuckets(1e-3, 2, 24)

// Canary observes the seconds from a canary's sending to its answer.
func (m *Metrics) Canary() prometheus.Observer { return m.waits.canary }

// QueueWait observes the seconds from a request's acceptance to its turn.
func (m *Metrics) QueueWait() prometheus.Observer { return m.waits.queue }
