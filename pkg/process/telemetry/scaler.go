package telemetry

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ScalerMetrics are of scalers: what they know, decide, and why. Of several, only
// the one that plans tells of the plan.
type ScalerMetrics struct {
	// Scalers are "active" or "standby".
	Scalers *Mirror
	// CV and Balancedness are of each layer's replicas' rows, by the plan that was
	// decided on last.
	CV, Balancedness *Mirror
	// Replicas are wanted "warm", "kept" or "cold".
	Replicas *Mirror
	// PlanAge is how long ago each layer's plan changed, in seconds, if this scaler
	// changed it.
	PlanAge *Mirror
	// HostsWanted is how many expert hosts there should be for the work that there is.
	HostsWanted *Table
	// Decision observes the seconds of a decision on all layers.
	Decision prometheus.Histogram

	rebalances *prometheus.CounterVec
	trials     *prometheus.CounterVec
	samples    *prometheus.CounterVec
	refused    *prometheus.CounterVec
}

func newScalerMetrics(r prometheus.Registerer) *ScalerMetrics {
	return &ScalerMetrics{
		Scalers:      newMirror(r, "scalers", "Scalers, by state: active (it has the planner's lease) or standby.", "state"),
		CV:           newMirror(r, "layer_replica_cv_ratio", "Coefficient of variation of the rows of a layer's replicas, by the plan decided on last.", "layer"),
		Balancedness: newMirror(r, "layer_balancedness_ratio", "Mean by maximum of the rows of a layer's replicas, by the plan decided on last.", "layer"),
		Replicas:     newMirror(r, "planned_replicas", "Replicas of experts in the plan decided on last: warm, kept (loaded, and not in the group) or cold.", "want"),
		PlanAge:      newMirror(r, "plan_age_seconds", "Time since a layer's plan changed, of those that this scaler has changed.", "layer"),
		HostsWanted:  newTable(r, "expert_hosts_wanted", "Expert hosts that there should be: what they have to do would keep so many busy for seven tenths of the time, and all experts fit."),
		Decision:     histogram(r, "plan_decision_seconds", "Time of a decision on the plans of all layers.", fineBuckets),
		rebalances:   counters(r, "rebalances_total", "Changes of layers' plans, by cause; one change may have several.", "cause"),
		trials:       counters(r, "plan_trials_total", "Changes of layers' plans that were made for speed, by what came of them.", "verdict"),
		samples:      counters(r, "scaler_samples_total", "Load samples that came to the scaler: taken, repeated, or missing by the numbers of others.", "outcome"),
		refused:      counters(r, "scaler_refused_samples_total", "Load samples that count for nothing, by what is wrong with them.", "kind"),
	}
}

// Rebalances counts changes of layers' plans by a cause.
func (m *ScalerMetrics) Rebalances(cause string) prometheus.Counter {
	return m.rebalances.WithLabelValues(cause)
}

// Trials counts changes that were made for speed by what came of them.
func (m *ScalerMetrics) Trials(verdict string) prometheus.Counter {
	return m.trials.WithLabelValues(verdict)
}

// Samples counts samples by what became of them.
func (m *ScalerMetrics) Samples(outcome string) prometheus.Counter {
	return m.samples.WithLabelValues(outcome)
}

// Refused counts samples by what is wrong with them.
func (m *ScalerMetrics) Refused(kind string) prometheus.Counter {
	return m.refused.WithLabelValues(kind)
}

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

func newForetoldMetrics(r prometheus.Registerer) *ForetoldMetrics {
	return &ForetoldMetrics{
		off: declare(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "foretold_error_ratio", Help: "How far the rows of a layer's functions are from those that its plan foretold: the mean absolute difference by the mean load, of the rows since the plan.",
		}, []string{"layer"})),
		rows:   counters(r, "foretold_compared_rows_total", "Routed rows that were compared with foretold ones, by layer.", "layer"),
		layers: map[int]*foretoldRows{},
	}
}

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

// off returns the difference by the rows that came, of as many foretold ones.
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

func newTransferMetrics(r prometheus.Registerer) TransferMetrics {
	m := TransferMetrics{
		seconds:   histograms(r, "transfer_seconds", "Time of moving rows or outputs, by transfer mode and stage: scatter (a gate sends or stores), fetch (a host gets an object), store (a host sends or stores), gather (an aggregator gets an object).", stageBuckets, "mode", "stage"),
		bytes:     counters(r, "transfer_bytes_total", "Bytes of rows and outputs that were moved, by transfer mode and stage.", "mode", "stage"),
		fallbacks: counters(r, "transfer_fallbacks_total", "Rows or outputs that travelled by another transfer mode than planned, by both and the reason: payload (no message takes them), full or unavailable (of the object store) or memory (a host computes them in parts).", "from", "to", "reason"),
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
		requests:   prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "http_requests_total", Help: "HTTP requests that were answered, by route and status."}, []string{"route", "status"}),
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
	return &Table{desc: prometheus.NewDesc("vllm:"+name, help, []string{modelLabel}, nil)}
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
