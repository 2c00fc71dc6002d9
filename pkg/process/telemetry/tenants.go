package telemetry

import "github.com/prometheus/client_golang/prometheus"

// TenantMetrics are of tenants with quotas, as a tokenizer sees them: what they have of
// what they may have, in the states "used" and "limit". Who tells bounds the tenants.
type TenantMetrics struct {
	// Waiting are requests, Tokens those of the last minute, and Log bytes of the token log.
	Waiting, Tokens, Log *Table

	refusals *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	memory   *prometheus.CounterVec
}

func newTenantMetrics() TenantMetrics {
	const states = ", by tenant and state: used, and limit; the tenant * is the fullest of those without a quota of their own."
	return TenantMetrics{
		Waiting:  newTable("tenant_waiting_requests", "Requests that wait for their turn, of tenants with a quota of them"+states, "tenant", "state"),
		Tokens:   newTable("tenant_minute_tokens", "Tokens of the last minute, of tenants with a quota of them"+states, "tenant", "state"),
		Log:      newTable("tenant_log_bytes", "Bytes of the token log, of tenants with a quota of them"+states, "tenant", "state"),
		refusals: counters("tenant_refusals_total", "Requests refused because their tenant has what it may have, by tenant and quota: waiting, tokens or log.", "tenant", "quota"),
		tokens:   counters("tenant_tokens_total", "Tokens of requests that ended, by tenant (* is all without a quota of their own) and kind: prompt or completion.", "tenant", "kind"),
		memory:   counters("tenant_expert_gb_seconds_total", "Gigabytes of experts in memory times seconds, of requests that ended, by tenant (* is all without a quota of their own).", "tenant"),
	}
}

func (t TenantMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{t.Waiting, t.Tokens, t.Log, t.refusals, t.tokens, t.memory}
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
