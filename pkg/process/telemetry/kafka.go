package telemetry

import "github.com/prometheus/client_golang/prometheus"

// KafkaMetrics are of those who tell Kafka of loads, and of who reads them.
type KafkaMetrics struct {
	// Up says whether Kafka did what was asked of it last, 1 or 0, by role: write or read.
	Up *Table
	// Lag is how many samples lie before a reader.
	Lag *Table
}

func newKafkaMetrics() KafkaMetrics {
	return KafkaMetrics{
		Up:  newTable("kafka_up", "Whether Kafka did what was asked of it last (1 or 0), by role: write or read.", "role"),
		Lag: newTable("kafka_lag_samples", "Load samples that lay before the scaler in its partitions when it looked last."),
	}
}

func (k KafkaMetrics) all() []prometheus.Collector { return []prometheus.Collector{k.Up, k.Lag} }
