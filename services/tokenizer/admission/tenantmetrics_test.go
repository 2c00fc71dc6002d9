package admission_test

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Metrics say what tenants have of their quotas, and what was refused for them; tenants
// without a quota of their own are the tenant *, of which the fullest counts.
func TestTenantMetrics(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica(func(c *tokenizer.Config) {
		c.Tenants = map[string]tokenizer.Quota{"acme": {Waiting: 2, TokensPerMinute: 600_000, LogBytes: 1 << 20}, "*": {Waiting: 2}}
	})
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == 8 })
	says := func(name, tenant, rest string, value float64) {
		t.Helper()
		line := fmt.Sprintf("switchyard_tenant_%s{%s,tenant=%q} %v\n", name, rest, tenant, value)
		r.Eventually(line, func() bool { return strings.Contains(r.Metrics(s), line) })
	}
	says("refusals_total", "acme", `quota="log"`, 0)
	says("waiting_requests", "acme", `state="used"`, 0)
	r.PromptOf("acme", "a1", "")
	r.PromptOf("acme", "a2", "")
	r.PromptOf("beta", "b1", "")
	r.PromptOf("gamma", "g1", "")
	r.PromptOf("gamma", "g2", "")
	for _, id := range []string{"a1", "a2", "b1", "g1", "g2"} {
		r.Opened(id)
	}
	says("waiting_requests", "acme", `state="used"`, 2)
	says("waiting_requests", "acme", `state="limit"`, 2)
	says("waiting_requests", "*", `state="used"`, 2)
	says("minute_tokens", "acme", `state="limit"`, 600_000)
	says("log_bytes", "acme", `state="limit"`, 1<<20)
	r.PromptOf("acme", "a3", "").End()
	r.PromptOf("gamma", "g3", "").End()
	says("refusals_total", "acme", `quota="waiting"`, 1)
	says("refusals_total", "*", `quota="waiting"`, 1)
	page := r.Metrics(s)
	if strings.Contains(page, `tenant="gamma"`) || strings.Contains(page, `tenant="beta"`) || strings.Contains(page, `log_bytes{state="used",tenant="*"`) {
		t.Errorf("a tenant is named, or has a quota, that has none of its own:\n%s", page)
	}
	if !strings.Contains(page, `tenant_log_bytes{state="used",tenant="acme"} `) || strings.Contains(page, `tenant_log_bytes{state="used",tenant="acme"} 0`) {
		t.Error("two requests have no bytes of the log")
	}
}

// Tenants' sums have the tokens and the memory of requests that ended; those without a quota
// of their own are the tenant *.
func TestTenantSums(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica(func(c *tokenizer.Config) { c.Tenants = map[string]tokenizer.Quota{"acme": {Weight: 2}} })
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == 8 })
	for tenant, request := range map[string]string{"acme": "a", "beta": "b", "gamma": "g"} {
		got := r.PromptOf(tenant, request, "")
		r.Opened(request)
		stop := rig.Ending("stop")
		stop.GetTerminal().Cost = &pb.Cost{ExpertGbS: 1.5}
		r.Append(r.Claim(request), rig.Token(0), rig.Token(1), stop)
		got.End()
	}
	for _, line := range []string{
		`switchyard_tenant_tokens_total{kind="completion",tenant="acme"} 2`, `switchyard_tenant_tokens_total{kind="completion",tenant="*"} 4`,
		`switchyard_tenant_expert_gb_seconds_total{tenant="acme"} 1.5`, `switchyard_tenant_expert_gb_seconds_total{tenant="*"} 3`,
	} {
		r.Eventually(line, func() bool { return strings.Contains(r.Metrics(s), line+"\n") })
	}
	if page := r.Metrics(s); strings.Contains(page, `tenant="beta"`) {
		t.Error("a tenant is named that has no quota of its own")
	}
}

// Members are counted by service and state, also where there are none.
func TestMemberMetrics(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	for _, line := range []string{
		`switchyard_members{service="attention",state="ready"} 1`,
		`switchyard_members{service="tokenizer",state="ready"} 1`,
		`switchyard_members{service="gate",state="ready"} 0`,
		`switchyard_members{service="scaler",state="draining"} 0`,
	} {
		r.Eventually(line, func() bool { return strings.Contains(r.Metrics(s), line+"\n") })
	}
}
