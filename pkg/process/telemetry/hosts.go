package telemetry

import "github.com/prometheus/client_golang/prometheus"

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

func newHostMetrics() HostMetrics {
	return HostMetrics{
		Functions: newMirror("host_functions", "Functions on expert hosts, by phase: warm, kept (warm, and takes no rows), cold, warming, draining or refused.", "phase"),
		Memory:    newMirror("expert_memory_bytes", "Bytes of experts on hosts: used, and the budget where there is one.", "state"),
		Loads:     newMirror("expert_loads", "Loads of experts that wait or run.", "state"),
		GigabyteSeconds: newCounterMirror(prometheus.Labels{"tier": "device"}, "expert_memory_gb_seconds_total",
			"Gigabytes of experts in memory times seconds, by state: loading (from when memory was set aside for one), kept, or serving rows.", "state"),
		Taken:         newCounterMirror(nil, "expert_taken_gb_seconds_total", "Of expert_memory_gb_seconds_total, what rows have taken; the rest was idle.", "tier"),
		Moved:         newCounterMirror(nil, "expert_loaded_bytes_total", "Bytes of experts that were loaded.", "tier"),
		ColdStarts:    counter("cold_starts_total", "Functions that rows found cold, and that were loaded for them."),
		ColdStart:     histogram("cold_start_seconds", "Time from the first rows for a cold function to it being warm.", loadBuckets),
		Slow:          newMirror("slow_hosts", "Expert hosts that gates find slow, by state: avoided, or tried with a little.", "state"),
		Hints:         counters("hints_total", "Hints of predictors that expert hosts got, by outcome: taken, refused (of units that cannot be) or dropped (the oldest, for newer ones).", "outcome"),
		HintedExperts: counters("hinted_experts_total", "Experts that followed hints named, by outcome: loading (its load was asked for), held (in memory already), roomless (others need the room), reached (its layer was there already), elsewhere (not served here) or dropped (the oldest, for newer ones).", "outcome"),
		Prefetched:    counters("prefetched_bytes_total", "Bytes of experts whose loads hints asked for, by outcome: used (in memory when its rows came), late (its load was not over), wasted (no rows came) or cancelled (none came before its load was over).", "outcome"),
		HintAge:       histogram("hint_age_seconds", "Time from a hint for an expert to the rows for it.", loadBuckets),
		HintLag:       histograms("hint_lag_seconds", "Time from a layer's rows at a host to the hint that is made at their gate, 0 if the hint came first, by phase: prefill or decode.", hintBuckets, "phase"),
		HintLead:      histograms("hint_lead_seconds", "Time from a step's hint that is made before layer 0 to the rows of that layer at a host, 0 if they came first, by phase: prefill or decode.", hintBuckets, "phase"),
		Accesses:      counters("expert_accesses_total", "Experts that a step's rows asked of a host that offloads, once a layer and microbatch, by state: hit (in memory when the rows came), late (loading) or miss; and by phase: prefill or decode.", "state", "phase"),
		Stalls:        counters("expert_stall_seconds_total", "Time that dispatches waited for experts on hosts that offload, by phase: prefill or decode.", "phase"),
		quarantine:    counters("quarantine_changes_total", "Gates' decisions about slow expert hosts, by the host's new state: avoided, tried or trusted.", "state"),
		evictions:     counters("function_evictions_total", "Functions whose memory was freed, by cause: expired (not needed for the keep-alive time) or pressure (others needed the room).", "cause"),
		loaded:        histograms("expert_load_seconds", "Time of a load of an expert, by how it ended: warm, failed or cancelled.", loadBuckets, "outcome"),
	}
}

// loadBuckets reach from 1 ms to about 65 s.
var loadBuckets = prometheus.ExponentialBuckets(1e-3, 4, 9)

// hintBuckets reach from 32 µs to about 130 ms.
var hintBuckets = prometheus.ExponentialBuckets(32e-6, 2, 13)

func (h HostMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{h.Functions, h.Memory, h.Loads, h.GigabyteSeconds, h.Taken, h.Moved, h.ColdStarts, h.ColdStart, h.evictions, h.loaded, h.Slow, h.quarantine, h.Hints, h.HintedExperts, h.Prefetched, h.HintAge, h.HintLag, h.HintLead, h.Accesses, h.Stalls}
}

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

// Hinted counts a hint by what became of it.
func (h HostMetrics) Hinted(outcome string) { h.Hints.WithLabelValues(outcome).Inc() }

// Evicted counts a function whose memory was freed, by cause.
func (h HostMetrics) Evicted(cause string) { h.evictions.WithLabelValues(cause).Inc() }

// Judged counts a gate's decision about a host, by its new state.
func (h HostMetrics) Judged(state string) { h.quarantine.WithLabelValues(state).Inc() }

// Loaded observes the seconds of a load that began, by how it ended.
func (h HostMetrics) Loaded(outcome string, seconds float64) {
	h.loaded.WithLabelValues(outcome).Observe(seconds)
}
