package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// GatewayMetrics are of gateways. Those that begin with vllm: have the names, labels and units
// of vLLM's, which inference gateways, autoscalers and dashboards read.
type GatewayMetrics struct {
	requests *prometheus.CounterVec
	open     prometheus.Gauge

	// Running, Waiting and KVUsed are of each model, as its tokenizers tell.
	Running, Waiting, KVUsed *Table

	firstToken, perToken, total *prometheus.HistogramVec
	prompt, generated           *prometheus.CounterVec
	succeeded                   *prometheus.CounterVec
}

const modelLabel = "model_name"

// gatewayBuckets reach from a millisecond to about 9 minutes.
var gatewayBuckets = prometheus.ExponentialBuckets(0.001, 2, 20)

// Gateway registers the metrics of the gateways of this process, which share them.
func (t *Telemetry) Gateway() *GatewayMetrics {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gateway != nil {
		return t.gateway
	}
	m := newGatewayMetrics()
	for _, c := range m.all() {
		var twice prometheus.AlreadyRegisteredError
		if err := t.Registry.Register(c); err != nil && !errors.As(err, &twice) {
			panic(err) // two metrics of one name are a fault of the program
		}
	}
	t.gateway = m
	return m
}

func newGatewayMetrics() *GatewayMetrics {
	return &GatewayMetrics{
		requests:   counters("http_requests_total", "HTTP requests that were answered, by route and status.", "route", "status"),
		open:       prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "http_streams", Help: "Answers that are under way at this gateway."}),
		Running:    vllmTable("num_requests_running", "Requests of the model that make tokens."),
		Waiting:    vllmTable("num_requests_waiting", "Requests of the model that wait for their turn."),
		KVUsed:     vllmTable("kv_cache_usage_perc", "Share of the model's pages of keys and values that are used; 1 is all."),
		firstToken: vllmHistogram("time_to_first_token_seconds", "Time from a request at the gateway to its first token."),
		perToken:   vllmHistogram("request_time_per_output_token_seconds", "Mean time of a request's tokens after the first, at the gateway."),
		total:      vllmHistogram("e2e_request_latency_seconds", "Time from a request at the gateway to its end."),
		prompt:     vllmCounter("prompt_tokens_total", "Tokens of the prompts of requests that ended.", modelLabel),
		generated:  vllmCounter("generation_tokens_total", "Tokens of the answers of requests that ended.", modelLabel),
		succeeded:  vllmCounter("request_success_total", "Requests that ended in an answer, by its finish reason.", modelLabel, "finished_reason"),
	}
}

func vllmTable(name, help string) *Table {
	return &Table{desc: prometheus.NewDesc("vllm:"+name, help, []string{modelLabel}, nil), reads: map[int]func() []Reading{}}
}

func vllmHistogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: gatewayBuckets}, []string{modelLabel})
}

func vllmCounter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:" + name, Help: help}, labels)
}

func (m *GatewayMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.open, m.Running, m.Waiting, m.KVUsed, m.firstToken, m.perToken, m.total, m.prompt, m.generated, m.succeeded}
}

// Request counts an answered request by its route, as it is written in the code, and its status.
func (m *GatewayMetrics) Request(route, status string) {
	m.requests.WithLabelValues(route, status).Inc()
}

// Open counts answers that are under way.
func (m *GatewayMetrics) Open(change int) { m.open.Add(float64(change)) }

// GatewayAnswer is how a request went at a gateway.
type GatewayAnswer struct {
	Model, Finish     string // Finish is empty where it failed
	Total, First      time.Duration
	Prompt, Generated int32
}

// Answered observes a request that ended.
func (m *GatewayMetrics) Answered(a GatewayAnswer) {
	m.total.WithLabelValues(a.Model).Observe(a.Total.Seconds())
	if a.First > 0 {
		m.firstToken.WithLabelValues(a.Model).Observe(a.First.Seconds())
	}
	if a.Generated > 1 && a.First > 0 {
		m.perToken.WithLabelValues(a.Model).Observe((a.Total - a.First).Seconds() / float64(a.Generated-1))
	}
	m.prompt.WithLabelValues(a.Model).Add(float64(a.Prompt))
	m.generated.WithLabelValues(a.Model).Add(float64(a.Generated))
	if a.Finish != "" {
		m.succeeded.WithLabelValues(a.Model, a.Finish).Inc()
	}
}
