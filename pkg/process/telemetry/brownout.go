package telemetry

import "github.com/prometheus/client_golang/prometheus"

// BrownoutMetrics are what brownouts did to rows.
type BrownoutMetrics struct {
	slots    *prometheus.CounterVec
	accesses *prometheus.CounterVec
	united   *prometheus.CounterVec
	// Waits counts rows' groups that are computed again and wait for a united expert that no host
	// has warm.
	Waits prometheus.Counter
}

func newBrownoutMetrics(r prometheus.Registerer) BrownoutMetrics {
	return BrownoutMetrics{
		slots:    counters(r, "brownout_slots_total", "Slots of rows in groups that a brownout changed, by what became of them: own, united, left_out; and cold, those that were to have a united expert which no host has warm, in all groups.", "fate"),
		accesses: counters(r, "brownout_accesses_total", "Experts, and united ones, that had rows of a layer in groups under a brownout's stamp: before the split, as without a brownout, and after it.", "split"),
		united:   counters(r, "united_rows_total", "Routed rows that united experts computed, by layer and way.", "layer", "way"),
		Waits:    counter(r, "replay_waits_total", "Groups of rows that are computed again, and wait because no host has their united experts warm."),
	}
}

func (b BrownoutMetrics) begin() {
	for _, fate := range []string{"own", "united", "left_out", "cold"} {
		b.Slots(fate)
	}
	b.Accesses("before")
	b.Accesses("after")
}

// Slots counts slots of a fate.
func (b BrownoutMetrics) Slots(fate string) prometheus.Counter { return b.slots.WithLabelValues(fate) }

// Accesses counts experts that had rows, before the split or after it.
func (b BrownoutMetrics) Accesses(split string) prometheus.Counter {
	return b.accesses.WithLabelValues(split)
}

// UnitedRows counts the routed rows of a layer's united experts of a way.
func (m *Metrics) UnitedRows(layer, way int) prometheus.Counter {
	return m.Brownout.united.WithLabelValues(m.layer(layer), bounded(way, maxExperts))
}

// DirectiveMetrics are of how far brownouts go, and why.
type DirectiveMetrics struct {
	// Thresholds are what attention stamps on its steps, and P90 what the controller decides by,
	// by phase. Of several replicas in a process the largest is shown.
	Thresholds, P90 *Table
	// Ignored counts messages and times of latencies that do not count.
	Ignored prometheus.Counter

	changes *prometheus.CounterVec
}

func newDirectiveMetrics(r prometheus.Registerer) DirectiveMetrics {
	return DirectiveMetrics{
		Thresholds: newTable(r, "brownout_threshold_ratio", "Least share of a layer's routed rows that keep their own experts, as attention stamps it on its steps, by phase.", "phase"),
		P90:        newTable(r, "brownout_step_p90_seconds", "90th percentile of steps' times by which the controller of brownouts decided last, by phase; absent without steps.", "phase"),
		Ignored:    counter(r, "brownout_ignored_latencies_total", "Messages and times of steps that the controller of brownouts did not believe, or was too slow for."),
		changes:    counters(r, "brownout_changes_total", "Moves of thresholds by the controller of brownouts, by phase and direction: up or down.", "phase", "direction"),
	}
}

func (m DirectiveMetrics) begin() {
	for _, phase := range []string{"prefill", "decode"} {
		m.changes.WithLabelValues(phase, "up")
		m.changes.WithLabelValues(phase, "down")
	}
}

// Changed counts a move of a threshold.
func (m DirectiveMetrics) Changed(phase, direction string) {
	m.changes.WithLabelValues(phase, direction).Inc()
}

// TenantMetrics are of tenants with quotas, as a tokenizer sees them: what they have of
// what they may have, in the states "used" and "limit". Who tells bounds the tenants.
type TenantMetrics struct {
	// Waiting are requests, Tokens those of the last minute, and Log bytes of the token log.
	Waiting, Tokens, Log *Table

	refusals *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	memory   *prometheus.CounterVec
}

func newTenantMetrics(r prometheus.Registerer) TenantMetrics {
	const states = ", by tenant and state: used, and limit; the tenant * is the fullest of those without a quota of their own."
	return TenantMetrics{
		Waiting:  newTable(r, "tenant_waiting_requests", "Requests that wait for their turn, of tenants with a quota of them"+states, "tenant", "state"),
		Tokens:   newTable(r, "tenant_minute_tokens", "Tokens of the last minute, of tenants with a quota of them"+states, "tenant", "state"),
		Log:      newTable(r, "tenant_log_bytes", "Bytes of the token log, of tenants with a quota of them"+states, "tenant", "state"),
		refusals: counters(r, "tenant_refusals_total", "Requests refused because their tenant has what it may have, by tenant and quota: waiting, tokens or log.", "tenant", "quota"),
		tokens:   counters(r, "tenant_tokens_total", "Tokens of requests that ended, by tenant (* is all without a quota of their own) and kind: prompt or completion.", "tenant", "kind"),
		memory:   counters(r, "tenant_expert_gb_seconds_total", "Gigabytes of experts in memory times seconds, of requests that ended, by tenant (* is all without a quota of their own).", "tenant"),
	}
}

// Ended counts what a request of a tenant took that has ended.
func (t TenantMetrics) Ended(tenant string, prompt, completion int, gigabyteSeconds float64) {
	t.tokens.WithLabelValues(tenant, "prompt").Add(float64(prompt))
	t.tokens.WithLabelValues(tenant, "completion").Add(float64(completion))
	t.memory.WithLabelValues(tenant).Add(gigabyteSeconds)
}

// Refusals counts requests that a tenant's quota refused.
func (t TenantMetrics) Refusals(tenant, quota string) prometheus.Counter {
	return t.refusals.WithLabelValues(tenant, quota)
}
