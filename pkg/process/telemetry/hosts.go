package telemetry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// HostMetrics are of expert hosts: what they have in memory, and what that costs.
type HostMetrics struct {
	// Functions are a host's functions by phase: warm, kept, cold, warming,
	// draining or refused. Kept ones are warm and take no rows.
	Functions *Mirror
	// Memory is the bytes of experts, "used" and "budget"; no budget is no limit.
	Memory *Mirror
	// Loads are the loads of experts that are "waiting" or "running".
	Loads *Mirror
	// GigabyteSeconds are what experts in memory have come to: "loading", "kept" or "serving".
	GigabyteSeconds *Mirror
	// Taken are those of them that rows were told to have taken, and Moved the bytes that
	// were loaded, by tier.
	Taken, Moved *Mirror
	// ColdStarts counts functions that rows found cold.
	ColdStarts prometheus.Counter
	// ColdStart observes the seconds from such rows to a warm function.
	ColdStart prometheus.Histogram
	// Slow are hosts that gates find slow: "avoided", or "tried" with a little.
	Slow *Mirror
	// Hints counts the hints of predictors: "taken", "refused" or "dropped".
	Hints *prometheus.CounterVec
	// HintedExperts counts the experts that hints name, by what became of the hint, Prefetched
	// the bytes that were loaded for hints, by whether rows came for them, and HintAge observes
	// how long a hint was there before its rows.
	HintedExperts, Prefetched *prometheus.CounterVec
	HintAge                   prometheus.Histogram
	// HintLag observes, by phase, how much later than a layer's rows the hint comes that is made at their gate, and
	// HintLead how much sooner than the rows of layer 0 the one that is made before it.
	HintLag, HintLead *prometheus.HistogramVec
	// Accesses counts the experts that dispatches ask a host for that offloads, by whether they
	// were in memory and by phase, and Stalls the seconds that dispatches waited for them.
	Accesses, Stalls *prometheus.CounterVec
	evictions        *prometheus.CounterVec
	loaded           *prometheus.HistogramVec

	quarantine *prometheus.CounterVec
}

func newHostMetrics(r prometheus.Registerer) HostMetrics {
	return HostMetrics{
		Functions: newMirror(r, "host_functions", "Functions on expert hosts, by phase: warm, kept (warm, and takes no rows), cold, warming, draining or refused.", "phase"),
		Memory:    newMirror(r, "expert_memory_bytes", "Bytes of experts on hosts: used, and the budget where there is one.", "state"),
		Loads:     newMirror(r, "expert_loads", "Loads of experts that wait or run.", "state"),
		GigabyteSeconds: newCounterMirror(r, prometheus.Labels{"tier": "device"}, "expert_memory_gb_seconds_total",
			"Gigabytes of experts in memory times seconds, by state: loading (from when memory was set aside for one), kept, or serving rows.", "state"),
		Taken:         newCounterMirror(r, nil, "expert_taken_gb_seconds_total", "Of expert_memory_gb_seconds_total, what rows have taken; the rest was idle.", "tier"),
		Moved:         newCounterMirror(r, nil, "expert_loaded_bytes_total", "Bytes of experts that were loaded.", "tier"),
		ColdStarts:    counter(r, "cold_starts_total", "Functions that rows found cold, and that were loaded for them."),
		ColdStart:     histogram(r, "cold_start_seconds", "Time from the first rows for a cold function to it being warm.", loadBuckets),
		Slow:          newMirror(r, "slow_hosts", "Expert hosts that gates find slow, by state: avoided, or tried with a little.", "state"),
		Hints:         counters(r, "hints_total", "Hints of predictors that expert hosts got, by outcome: taken, refused (of units that cannot be) or dropped (the oldest, for newer ones).", "outcome"),
		HintedExperts: counters(r, "hinted_experts_total", "Experts that followed hints named, by outcome: loading (its load was asked for), held (in memory already), roomless (others need the room), reached (its layer was there already), elsewhere (not served here) or dropped (the oldest, for newer ones).", "outcome"),
		Prefetched:    counters(r, "prefetched_bytes_total", "Bytes of experts whose loads hints asked for, by outcome: used (in memory when its rows came), late (its load was not over), wasted (no rows came) or cancelled (none came before its load was over).", "outcome"),
		HintAge:       histogram(r, "hint_age_seconds", "Time from a hint for an expert to the rows for it.", loadBuckets),
		HintLag:       histograms(r, "hint_lag_seconds", "Time from a layer's rows at a host to the hint that is made at their gate, 0 if the hint came first, by phase: prefill or decode.", hintBuckets, "phase"),
		HintLead:      histograms(r, "hint_lead_seconds", "Time from a step's hint that is made before layer 0 to the rows of that layer at a host, 0 if they came first, by phase: prefill or decode.", hintBuckets, "phase"),
		Accesses:      counters(r, "expert_accesses_total", "Experts that a step's rows asked of a host that offloads, once a layer and microbatch, by state: hit (in memory when the rows came), late (loading) or miss; and by phase: prefill or decode.", "state", "phase"),
		Stalls:        counters(r, "expert_stall_seconds_total", "Time that dispatches waited for experts on hosts that offload, by phase: prefill or decode.", "phase"),
		quarantine:    counters(r, "quarantine_changes_total", "Gates' decisions about slow expert hosts, by the host's new state: avoided, tried or trusted.", "state"),
		evictions:     counters(r, "function_evictions_total", "Functions whose memory was freed, by cause: expired (not needed for the keep-alive time) or pressure (others needed the room).", "cause"),
		loaded:        histograms(r, "expert_load_seconds", "Time of a load of an expert, by how it ended: warm, failed or cancelled.", loadBuckets, "outcome"),
	}
}

// loadBuckets reach from 1 ms to about 65 s.
var loadBuckets = prometheus.ExponentialBuckets(1e-3, 4, 9)

// hintBuckets reach from 32 µs to about 130 ms.
var hintBuckets = prometheus.ExponentialBuckets(32e-6, 2, 13)

// begin makes the counters at 0, as those of Metrics.
func (h HostMetrics) begin() {
	for _, cause := range []string{"expired", "pressure"} {
		h.evictions.WithLabelValues(cause)
	}
	for _, outcome := range []string{"taken", "refused", "dropped"} {
		h.Hints.WithLabelValues(outcome)
	}
	for _, outcome := range HintOutcomes {
		h.HintedExperts.WithLabelValues(outcome)
	}
	for _, outcome := range PrefetchOutcomes {
		h.Prefetched.WithLabelValues(outcome)
	}
	for _, phase := range []string{"prefill", "decode"} {
		h.Stalls.WithLabelValues(phase)
		for _, state := range AccessStates {
			h.Accesses.WithLabelValues(state, phase)
		}
	}
	for _, state := range []string{"avoided", "tried", "trusted"} {
		h.quarantine.WithLabelValues(state)
	}
}

// Values of the labels of hosts that offload.
var (
	HintOutcomes     = []string{"loading", "held", "roomless", "reached", "elsewhere", "dropped"}
	PrefetchOutcomes = []string{"used", "late", "wasted", "cancelled"}
	AccessStates     = []string{"hit", "late", "miss"}
)

// Evicted counts a function whose memory was freed, by cause.
func (h HostMetrics) Evicted(cause string) { h.evictions.WithLabelValues(cause).Inc() }

// Judged counts a gate's decision about a host, by its new state.
func (h HostMetrics) Judged(state string) { h.quarantine.WithLabelValues(state).Inc() }

// Loaded observes the seconds of a load that began, by how it ended.
func (h HostMetrics) Loaded(outcome string, seconds float64) {
	h.loaded.WithLabelValues(outcome).Observe(seconds)
}

// Beside returns the telemetry of a further model of t's process. It has no port of its own:
// t's pages show its metrics, under its model's label, and its health. Its spans go where t's go.
func (t *Telemetry) Beside(c Config) *Telemetry {
	c.OTLPEndpoint, c.MetricsAddr, c.PprofAddr = "", "", ""
	o := newTelemetry(prometheus.NewRegistry(), c) // what Go and the process tell, t tells
	o.processor, o.sampler, o.lent = t.processor, t.sampler, true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beside = append(t.beside, o)
	return o
}

func (t *Telemetry) all() []*Telemetry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*Telemetry{t}, t.beside...)
}

// Page shows the metrics of all models of the process.
func (t *Telemetry) Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from prometheus.Gatherers
		for _, one := range t.all() {
			from = append(from, one.Registry)
		}
		promhttp.HandlerFor(from, promhttp.HandlerOpts{Registry: t.Registry}).ServeHTTP(w, r)
	})
}

// askAll asks the health of all models of the process.
func (t *Telemetry) askAll(question func(Health) error) error {
	var errs []error
	for _, one := range t.all() {
		errs = append(errs, one.ask(question))
	}
	return errors.Join(errs...)
}

// Detail says how far metrics are told apart that grow with a model.
type Detail string

// The details, from most metrics to fewest.
const (
	ByExpert Detail = "expert" // by layer, and by expert where there is one
	ByLayer  Detail = "layer"  // by layer
	InAll    Detail = "total"  // of all layers together
)

// Details are all of them.
var Details = []Detail{ByExpert, ByLayer, InAll}

func (d Detail) check() error {
	if d == "" || slices.Contains(Details, d) {
		return nil
	}
	var names []string
	for _, known := range Details {
		names = append(names, string(known))
	}
	return fmt.Errorf("--metrics-detail is %q; it must be one of %s", string(d), strings.Join(names, ", "))
}

// together is the label of layers and experts that are not told apart.
const together = "all"

// thin leaves out what d does not tell apart. It is called before anybody counts.
func (m *Metrics) thin(d Detail) {
	m.detail = d
	for _, byLayer := range []*Mirror{m.Scaler.CV, m.Scaler.Balancedness, m.Scaler.PlanAge} {
		byLayer.thin = d == InAll // a layer's figure is none of all layers
	}
	m.Foretold.thin = d == InAll
}

func (m *Metrics) layer(layer int) string {
	if m.detail == InAll {
		return together
	}
	return bounded(layer, maxLayers)
}

func (m *Metrics) expert(expert int) string {
	if m.detail == ByLayer || m.detail == InAll {
		return together
	}
	return bounded(expert, maxExperts)
}

// InvokedMetrics are of invocations of functions that plans of batches rent (policy bo-ods).
type InvokedMetrics struct {
	calls, gigabyteSeconds *prometheus.CounterVec
}

// Whose gigabyte-seconds of invocations are.
const (
	billed = "billed"
	model  = "model"
)

func newInvokedMetrics(r prometheus.Registerer) InvokedMetrics {
	return InvokedMetrics{
		calls:           counters(r, "invocations_total", "Invocations of functions that a plan of a batch has rented, by transfer mode.", "mode"),
		gigabyteSeconds: counters(r, "invocation_gb_seconds_total", "Gigabytes times seconds of these invocations, by transfer mode: billed, from their message to their last upload, or what the planner's model says for the same rows.", "mode", "of"),
	}
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

// MapMetrics are of predictors that foretell by expert maps.
type MapMetrics struct {
	search, alike *prometheus.HistogramVec
	kept, bytes   prometheus.Gauge
	hints         prometheus.Counter
}

func newMapMetrics(r prometheus.Registerer) MapMetrics {
	return MapMetrics{
		search: histograms(r, "map_search_seconds", "Time to search expert maps for the rows of one message: by what they begin with (semantic), or by the gates that they have passed (trajectory).", stageBuckets, "kind"),
		alike:  histograms(r, "map_similarity", "Similarity of a row and the expert map that was found, from 0 to 1: the less, the more experts are hinted at (1 less it is the share of a layer's probability).", prometheus.LinearBuckets(0.1, 0.1, 10), "kind"),
		kept:   declare(r, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "expert_maps", Help: "Expert maps that a predictor keeps, of all tenants."})),
		bytes:  declare(r, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "expert_maps_bytes", Help: "Memory of the expert maps that a predictor keeps."})),
		hints:  counter(r, "hints_sent_total", "Hints that a predictor has sent to expert hosts."),
	}
}

// Searched observes the seconds that a message's rows were searched for.
func (m MapMetrics) Searched(kind string, seconds float64) {
	m.search.WithLabelValues(kind).Observe(seconds)
}

// Found observes how similar the map is that was found.
func (m MapMetrics) Found(kind string, similarity float64) {
	m.alike.WithLabelValues(kind).Observe(max(0, similarity))
}

// Kept says how many maps there are.
func (m MapMetrics) Kept(maps int, bytes int64) {
	m.kept.Set(float64(maps))
	m.bytes.Set(float64(bytes))
}

// Sent counts hints.
func (m MapMetrics) Sent(n int) { m.hints.Add(float64(n)) }

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

func newRentedMetrics(r prometheus.Registerer) RentedMetrics {
	return RentedMetrics{
		Requests:        counter(r, "rented_requests_total", "Requests that have ended and were billed, with policy remoe."),
		Unbilled:        counter(r, "rented_requests_unbilled_total", "Requests whose end the planner has not heard, so that they were not billed, with policy remoe."),
		Splits:          counter(r, "rented_payload_splits_total", "Invocations that gates have made more than one a function and replica, since the rows were more than the payload that one takes, with policy remoe."),
		Divergence:      newTable(r, "rented_activation_divergence_bits", "Jensen-Shannon divergence of the activation that is foretold of the last requests and that of the rows that came, in the mean of layers."),
		gigabyteSeconds: counters(r, "rented_gb_seconds_total", "Gigabytes times seconds that requests were billed for, by part: gpu (attention's memory), host (of the experts beside it) or functions.", "part"),
		dollars:         counters(r, "rented_dollars_total", "Dollars that requests were billed for, by part.", "part"),
		missed:          counters(r, "rented_slo_missed_total", "Requests that ended and had missed their objective, with policy remoe: ttft or tpot.", "objective"),
	}
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
