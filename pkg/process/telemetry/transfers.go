package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// transferModes and transferStages are the labels of transfers: package transfer has the stages.
var (
	transferModes  = []pb.TransferMode{plan.Pipelined, plan.Indirect, plan.Direct}
	transferStages = []string{"scatter", "fetch", "store", "gather"}
)

// TransferMetrics are of rows on their way between gates, hosts and aggregators. It is a
// transfer.Observer, whose hot paths look no label up.
type TransferMetrics struct {
	seconds   *prometheus.HistogramVec
	bytes     *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
	by        map[transferStage]transferCount
}

type transferStage struct {
	mode  pb.TransferMode
	stage string
}

type transferCount struct {
	seconds prometheus.Observer
	bytes   prometheus.Counter
}

func newTransferMetrics() TransferMetrics {
	m := TransferMetrics{
		seconds:   histograms("transfer_seconds", "Time of moving rows or outputs, by transfer mode and stage: scatter (a gate sends or stores), fetch (a host gets an object), store (a host sends or stores), gather (an aggregator gets an object).", stageBuckets, "mode", "stage"),
		bytes:     counters("transfer_bytes_total", "Bytes of rows and outputs that were moved, by transfer mode and stage.", "mode", "stage"),
		fallbacks: counters("transfer_fallbacks_total", "Rows or outputs that travelled by another transfer mode than planned, by both and the reason: payload (no message takes them), full or unavailable (of the object store) or memory (a host computes them in parts).", "from", "to", "reason"),
		by:        map[transferStage]transferCount{},
	}
	for _, mode := range transferModes {
		for _, stage := range transferStages {
			if mode == plan.Direct && (stage == "fetch" || stage == "gather") {
				continue // the message has them
			}
			name := plan.TransferName(mode)
			m.by[transferStage{mode, stage}] = transferCount{m.seconds.WithLabelValues(name, stage), m.bytes.WithLabelValues(name, stage)}
		}
	}
	return m
}

func (m TransferMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.seconds, m.bytes, m.fallbacks}
}

// Moved counts what a stage has moved.
func (m TransferMetrics) Moved(mode pb.TransferMode, stage string, bytes int, took time.Duration) {
	if c, known := m.by[transferStage{mode, stage}]; known {
		c.seconds.Observe(took.Seconds())
		c.bytes.Add(float64(bytes))
	}
}

// FellBack counts rows that were planned in one mode and travelled in another.
func (m TransferMetrics) FellBack(from, to pb.TransferMode, reason string) {
	m.fallbacks.WithLabelValues(plan.TransferName(from), plan.TransferName(to), reason).Inc()
}
