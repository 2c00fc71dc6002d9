package telemetry

import (
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Metrics is every metric that Switchyard has; units are in the names.
type Metrics struct {
	detail Detail

	requests     *prometheus.CounterVec
	tokens       *prometheus.CounterVec
	stepDuration prometheus.Histogram
	layerHop     prometheus.Histogram
	expertRows   *prometheus.CounterVec
	expertTime   prometheus.Histogram
	batchRows    prometheus.Histogram
	stepPart     *prometheus.HistogramVec
	layerStage   *prometheus.HistogramVec
	prediction   *prometheus.HistogramVec
	redeliveries *prometheus.CounterVec
	busMessages  *prometheus.CounterVec
	busBytes     *prometheus.CounterVec
	loadSamples  *prometheus.CounterVec
	late         *prometheus.CounterVec
	deadLetters  *prometheus.CounterVec
	canaries     *prometheus.CounterVec
	draftTokens  *prometheus.CounterVec
	prefixTokens *prometheus.CounterVec
	replicas     *prometheus.GaugeVec
	waits        waits

	// Ready reports whether the process is ready, as /readyz does: 1 or 0.
	Ready *Table
	// Storing is whether NATS stores what this process sends it.
	Storing *Table
	// Links are the process's connections to NATS.
	Links *Links
	// Members are the replicas that there are, by service and state: ready, unready or
	// draining.
	Members *Table
	// Tenants are what tenants have of their quotas.
	Tenants TenantMetrics
	// Kafka is what senders and readers of loads see of it.
	Kafka KafkaMetrics

	// KVPages are the pages of attention's KV cache, "used" and "free".
	KVPages *Mirror
	// Sequences are those that attention has, "active".
	Sequences *Mirror
	// QueueDepth is how many messages wait for a service, by kind of stream.
	QueueDepth *Mirror
	// StreamFill is the share of its bound that a durable stream holds, by kind.
	StreamFill *Mirror
	// StageReady says what is there for a token to flow, 1 or 0, by stage.
	StageReady *Mirror

	// Brownout is what brownouts did to rows.
	Brownout BrownoutMetrics

	// Reissues counts rows' groups that attention sent again because they were late.
	Reissues prometheus.Counter
	// Preemptions counts sequences that gave their KV pages to older ones.
	Preemptions prometheus.Counter
	// UnannouncedSteps counts steps whose rows attention did not announce.
	UnannouncedSteps prometheus.Counter
	// Repeats counts messages whose key had been handled before.
	Repeats prometheus.Counter
	// Refused counts messages refused: another version, model or numeric class, or unreadable.
	Refused prometheus.Counter
	// Poisoned counts messages that no attempt can handle, and that were taken off their queue.
	Poisoned prometheus.Counter
	// LogNoise counts messages in token logs that readers passed over.
	LogNoise prometheus.Counter
	// IllegalRecords counts plans and states of functions that were not believed.
	IllegalRecords prometheus.Counter
	// Panics counts handlers' panics that were recovered.
	Panics prometheus.Counter
	// RefusedReplies counts messages whose reply subject may not be published to.
	RefusedReplies prometheus.Counter

	// PredictionsLost counts messages that predictors were too slow for.
	PredictionsLost prometheus.Counter

	// TimeClaims counts times in blocks that cannot be, and that were cut.
	TimeClaims prometheus.Counter

	Hosts HostMetrics
	// Maps are of predictors with expert maps.
	Maps MapMetrics
	// Directives are of how far brownouts go.
	Directives DirectiveMetrics
	// Transfers are of rows between gates, hosts and aggregators.
	Transfers TransferMetrics
	// GPUs are of whoever computes with one.
	GPUs *GPUs
	// Scaler are scalers'.
	Scaler *ScalerMetrics
	// Invoked are of functions that plans of batches rent.
	Invoked InvokedMetrics
	// Foretold are of gates whose plans foretold rows.
	Foretold *ForetoldMetrics
	// Rented are of scalers that plan by Remoe.
	Rented RentedMetrics

	genAI genAI
}

// NewMetrics declares every metric and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests:         counters(r, "requests_total", "Requests that ended, by how: stop, length, cancelled or an error code.", "outcome"),
		tokens:           counters(r, "tokens_total", "Tokens taken in (prompt) and made (completion).", "kind"),
		stepDuration:     histogram(r, "step_duration_seconds", "Time of one forward pass of a microbatch.", fineBuckets),
		layerHop:         histogram(r, "layer_hop_seconds", "Time from a layer's hidden rows leaving attention to their block's return.", fineBuckets),
		expertRows:       counters(r, "expert_rows_total", "Routed rows computed, by layer and expert.", "layer", "expert"),
		expertTime:       histogram(r, "expert_compute_seconds", "Time an expert host computes one dispatch.", fineBuckets),
		batchRows:        histogram(r, "batch_rows", "Rows of a microbatch.", prometheus.ExponentialBuckets(1, 2, 12)),
		redeliveries:     counters(r, "redeliveries_total", "Messages that JetStream delivered more than once, by stream kind.", "stream"),
		KVPages:          newMirror(r, "kv_pages", "Pages of the KV cache, by state: used or free.", "state"),
		QueueDepth:       newMirror(r, "queue_depth", "Messages that no replica has taken yet, by stream kind: prompt or sequence.", "stream"),
		busMessages:      counters(r, "bus_messages_total", "Messages, by stream kind and direction: in or out.", "stream", "direction"),
		busBytes:         counters(r, "bus_payload_bytes_total", "Payload bytes, by stream kind and direction.", "stream", "direction"),
		loadSamples:      counters(r, "load_samples_total", "Samples of experts' loads on Kafka, by what became of them.", "outcome"),
		deadLetters:      counters(r, "dead_letters_total", "Messages that were given up and kept for switchyard dlq, by stream kind and reason.", "stream", "reason"),
		canaries:         counters(r, "canaries_total", "Requests of one token by which tokenizers see whether a token can flow: sent, and answered.", "outcome"),
		replicas:         declare(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "replica_info", Help: "Always 1; a replica of this process by the id that logs, traces, connections and members have, with the machine's name, the process's id and the version."}, []string{"service", "replica", "host", "pid", "version"})),
		StageReady:       newMirror(r, "stage_ready", "Whether a token finds a ready replica, as tokenizers see it (1 or 0), by stage: attention, gate, expert, aggregator; token: whether one was seen to flow in time.", "stage"),
		Sequences:        newMirror(r, "sequences", "Sequences that an attention replica has.", "state"),
		Reissues:         counter(r, "reissues_total", "Groups of rows sent again because their block was late."),
		Preemptions:      counter(r, "preemptions_total", "Times a sequence gave its KV pages to older ones; what they held is computed again."),
		draftTokens:      counters(r, "draft_tokens_total", "Tokens of answers drafted from the text before them, by what came of them: accepted or rejected.", "outcome"),
		prefixTokens:     counters(r, "prefix_tokens_total", "Tokens of sequences that got pages, by whether their keys and values were there: cached or computed.", "outcome"),
		UnannouncedSteps: counter(r, "unannounced_steps_total", "Steps whose rows were not announced: they do not fit one message, or NATS was away."),
		late:             counters(r, "late_total", "Messages dropped because their result is not awaited any more, by the stage that dropped them.", "stage"),
		Repeats:          counter(r, "repeats_total", "Messages whose key had been handled before."),
		Refused:          counter(r, "refused_messages_total", "Messages refused: unreadable, or of another version, model or numeric class."),
		Poisoned:         counter(r, "poisoned_total", "Messages that no attempt can handle, taken off their queue."),
		LogNoise:         counter(r, "log_noise_total", "Messages in token logs that readers passed over: unreadable, or out of place."),
		IllegalRecords:   counter(r, "illegal_records_total", "Plans and states of functions in buckets that were not believed: unreadable, contradictory, or out of place."),
		Panics:           counter(r, "panics_total", "Handlers' panics that were recovered; each is a fault of the program."),
		RefusedReplies:   counter(r, "refused_replies_total", "Messages from outside whose reply subject may not be published to."),
		StreamFill:       newMirror(r, "stream_fill_ratio", "Share of its bound in bytes or messages that a durable stream holds, by kind: prompt, sequence, token, or a bucket.", "stream"),
		TimeClaims:       counter(r, "cut_time_claims_total", "Durations in blocks that were longer than the layer took, or of too many functions, and accesses that a layer cannot have."),
		stepPart:         histograms(r, "step_part_seconds", "Time of a step on attention's own clock, by part; they add up to the step.", stageBuckets, "part"),
		layerStage:       histograms(r, "layer_stage_seconds", "Time of a layer's routed experts, by layer and stage; a layer's stages add up to the layer.", stageBuckets, "layer", "stage"),
		prediction:       histograms(r, "prediction_seconds", "Time a predictor takes for the rows of one message, by the layer that it predicts.", stageBuckets, "layer"),
		PredictionsLost:  counter(r, "predictions_dropped_total", "Messages with rows that predictors were too slow for; the oldest are dropped first."),
		Hosts:            newHostMetrics(r),
		Maps:             newMapMetrics(r),
		Directives:       newDirectiveMetrics(r),
		Brownout:         newBrownoutMetrics(r),
		Transfers:        newTransferMetrics(r),
		GPUs:             declare(r, &GPUs{reads: map[int]gpuRead{}}),
		Scaler:           newScalerMetrics(r),
		Rented:           newRentedMetrics(r),
		Invoked:          newInvokedMetrics(r),
		Foretold:         newForetoldMetrics(r),
		genAI:            newGenAI(r),
		waits:            newWaits(r),
		Ready:            newTable(r, "ready", "Whether this process is ready, as /readyz says (1 or 0)."),
		Storing:          newTable(r, "storage_writable", "Whether NATS stores what this process sends it: 0 while a stream takes nothing, or the folder of the server here does not (1 or 0)."),
		Links:            newLinks(r),
		Members:          newTable(r, "members", "Replicas that a tokenizer sees, by service and state: ready, unready or draining.", "service", "state"),
		Tenants:          newTenantMetrics(r),
		Kafka:            newKafkaMetrics(r),
	}
	m.begin()
	return m
}

// outcomes are how a request can end: finish reasons, and the codes of errors.
var outcomes = []string{
	"stop", "length", "cancelled", "bad_request", "bad_prompt", "payload_too_large", "model_not_found", "model_not_ready",
	"overloaded", "deadline_exceeded", "internal",
}

// begin makes the counters whose labels are known, at 0: one that is not there
// cannot be told from one that did not count, and its first step is no increase.
func (m *Metrics) begin() {
	for _, outcome := range outcomes {
		m.Outcome(outcome)
	}
	m.PromptTokens()
	m.CompletionTokens()
	for _, s := range catalog.All() {
		if s.DropsLate {
			m.Late(s.Name)
		}
	}
	m.PrefixTokens("cached")
	m.PrefixTokens("computed")
	m.DraftTokens("accepted")
	m.DraftTokens("rejected")
	m.Canaries("sent")
	m.Canaries("answered")
	m.Hosts.begin()
	m.Directives.begin()
	m.Brownout.begin()
	m.Rented.begin()
	m.Invoked.begin()
}

// fineBuckets reach from 50 µs, a small model's layer, to about 105 s.
var fineBuckets = prometheus.ExponentialBuckets(50e-6, 2, 22)

// stageBuckets reach from 1 µs to about 67 s, coarse because there is a histogram
// for each layer and stage.
var stageBuckets = prometheus.ExponentialBuckets(1e-6, 4, 14)

// Limits of what a label may hold; past them rows count under "other".
const (
	maxLayers  = 128
	maxExperts = 512
)

// Outcome counts a request that ended: its finish reason, or its error code.
func (m *Metrics) Outcome(outcome string) prometheus.Counter {
	return m.requests.WithLabelValues(outcome)
}

// PromptTokens counts tokens taken in.
func (m *Metrics) PromptTokens() prometheus.Counter { return m.tokens.WithLabelValues("prompt") }

// CompletionTokens counts tokens made.
func (m *Metrics) CompletionTokens() prometheus.Counter {
	return m.tokens.WithLabelValues("completion")
}

// DraftTokens counts drafted tokens by what came of them, such as "accepted".
func (m *Metrics) DraftTokens(outcome string) prometheus.Counter {
	return m.draftTokens.WithLabelValues(outcome)
}

// PrefixTokens counts the tokens of sequences that got pages, by outcome: "cached" or "computed".
func (m *Metrics) PrefixTokens(outcome string) prometheus.Counter {
	return m.prefixTokens.WithLabelValues(outcome)
}

// Late counts messages that a stage, such as "gate", dropped because nobody waits for
// what they ask for any more.
func (m *Metrics) Late(stage string) prometheus.Counter { return m.late.WithLabelValues(stage) }

// Step observes the seconds of a forward pass.
func (m *Metrics) Step() prometheus.Observer { return m.stepDuration }

// LayerHop observes the seconds from hidden rows out to their block back.
func (m *Metrics) LayerHop() prometheus.Observer { return m.layerHop }

// LoadSamples counts samples of loads on Kafka by what became of them, such as
// "sent" or "dropped".
func (m *Metrics) LoadSamples(outcome string) prometheus.Counter {
	return m.loadSamples.WithLabelValues(outcome)
}

// StepParts observes the seconds of a step's parts, in the order of their names.
func (m *Metrics) StepParts(parts []string) (all []prometheus.Observer) {
	for _, part := range parts {
		all = append(all, m.stepPart.WithLabelValues(part))
	}
	return all
}

// LayerStages observes the seconds of a layer's stages, in the order of their names.
func (m *Metrics) LayerStages(layer int, stages []string) (all []prometheus.Observer) {
	for _, stage := range stages {
		all = append(all, m.layerStage.WithLabelValues(m.layer(layer), stage))
	}
	return all
}

// Prediction observes the seconds that predicting a layer from one message takes.
func (m *Metrics) Prediction(layer int) prometheus.Observer {
	return m.prediction.WithLabelValues(m.layer(layer))
}

// ExpertCompute observes the seconds of one dispatch's computation.
func (m *Metrics) ExpertCompute() prometheus.Observer { return m.expertTime }

// BatchRows observes the rows of a microbatch.
func (m *Metrics) BatchRows() prometheus.Observer { return m.batchRows }

// ExpertRows counts an expert's routed rows. Keep the counter on hot paths.
func (m *Metrics) ExpertRows(layer, expert int) prometheus.Counter {
	return m.expertRows.WithLabelValues(m.layer(layer), m.expert(expert))
}

func bounded(i, limit int) string {
	if i < 0 || i >= limit {
		return "other"
	}
	return strconv.Itoa(i)
}

// Redeliveries counts repeated deliveries from a kind of stream, such as "sequence".
func (m *Metrics) Redeliveries(stream string) prometheus.Counter {
	return m.redeliveries.WithLabelValues(stream)
}

// DeadLetters counts what was given up of a stream kind, by the reason.
func (m *Metrics) DeadLetters(stream, reason string) prometheus.Counter {
	return m.deadLetters.WithLabelValues(stream, reason)
}

// Canaries counts requests that tokenizers send to see whether a token can flow, by
// what became of them: "sent", and then "answered".
func (m *Metrics) Canaries(outcome string) prometheus.Counter {
	return m.canaries.WithLabelValues(outcome)
}

// Replica shows a replica of this process until gone is called.
func (m *Metrics) Replica(service, id, host string, pid int, version string) (gone func()) {
	labels := []string{service, id, host, strconv.Itoa(pid), version}
	m.replicas.WithLabelValues(labels...).Set(1)
	return func() { m.replicas.DeleteLabelValues(labels...) }
}

// Traffic counts the messages and bytes of one stream kind in one direction.
type Traffic struct {
	Messages, Bytes prometheus.Counter
}

// Add counts one message.
func (t Traffic) Add(bytes int) {
	t.Messages.Inc()
	t.Bytes.Add(float64(bytes))
}

// In returns the counters of what is received from a stream kind, such as "hidden".
func (m *Metrics) In(stream string) Traffic { return m.traffic(stream, "in") }

// Out returns the counters of what is published to a stream kind.
func (m *Metrics) Out(stream string) Traffic { return m.traffic(stream, "out") }

func (m *Metrics) traffic(stream, direction string) Traffic {
	return Traffic{m.busMessages.WithLabelValues(stream, direction), m.busBytes.WithLabelValues(stream, direction)}
}

const namespace = "switchyard"

func declare[C prometheus.Collector](r prometheus.Registerer, c C) C {
	r.MustRegister(c)
	return c
}

func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	return declare(r, prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}))
}

func counters(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	return declare(r, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels))
}

func histogram(r prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	return declare(r, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}))
}

func histograms(r prometheus.Registerer, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return declare(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels))
}

// labelled registers metrics with what is the same for a whole process, and the
// build's own.
func labelled(r prometheus.Registerer, c Config) prometheus.Registerer {
	if c.Model != "" {
		r = prometheus.WrapRegistererWith(prometheus.Labels{"model": c.Model}, r)
	}
	if c.Device != "" {
		r = prometheus.WrapRegistererWith(prometheus.Labels{"device": c.Device}, r)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; what was built, and which bits it computes.",
		ConstLabels: prometheus.Labels{"version": c.Version, "goversion": runtime.Version(), "numeric_class": c.NumericClass, "kernels": c.Kernels},
	})
	build.Set(1)
	r.MustRegister(build)
	return r
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// KafkaMetrics are of those who tell Kafka of loads, and of who reads them.
type KafkaMetrics struct {
	// Up reports whether Kafka did what was asked of it last, 1 or 0, by role: write or read.
	Up *Table
	// Lag is how many samples lie before a reader.
	Lag *Table
}

func newKafkaMetrics(r prometheus.Registerer) KafkaMetrics {
	return KafkaMetrics{
		Up:  newTable(r, "kafka_up", "Whether Kafka did what was asked of it last (1 or 0), by role: write or read.", "role"),
		Lag: newTable(r, "kafka_lag_samples", "Load samples that lay before the scaler in its partitions when it looked last."),
	}
}
