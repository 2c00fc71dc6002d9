package admission

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The quotas that a refusal can be for, as metrics name them.
const (
	quotaWaiting  = "waiting"
	quotaTokens   = "tokens"
	quotaRequests = "requests"
	quotaLog      = "log"
)

// maxTenantLabels bounds the tenants that metrics name, of those with quotas of their
// own; the others count among everyone else.
const maxTenantLabels = 100

// namedTenants are those that metrics name.
func namedTenants(config map[string]Quota) map[string]bool {
	all := map[string]bool{}
	for _, tenant := range slices.Sorted(maps.Keys(config)) {
		if tenant != EveryoneElse && len(all) < maxTenantLabels {
			all[tenant] = true
		}
	}
	return all
}

// label is a tenant as metrics name it.
func (q *quotas) label(tenant string) string {
	if q.granted.Load().named[tenant] {
		return tenant
	}
	return EveryoneElse
}

// quotaUse is what one tenant has of one quota, and may have.
type quotaUse struct{ used, limit float64 }

// fullest keeps of each label the tenant that has the most of what it may have.
type fullest map[string]quotaUse

func (f fullest) add(label string, u quotaUse) {
	if u.limit <= 0 {
		return
	}
	if there, ok := f[label]; !ok || u.used*there.limit > there.used*u.limit {
		f[label] = u
	}
}

func (f fullest) readings() (all []telemetry.Reading) {
	for label, u := range f {
		all = append(all,
			telemetry.Reading{Labels: []string{label, "used"}, Value: u.used},
			telemetry.Reading{Labels: []string{label, "limit"}, Value: u.limit})
	}
	return all
}

// quotaReadings reads what tenants have of a quota. They are this replica's share, so
// that sums over replicas are of all.
func (a *Admission) quotaReadings(of func(tenant string, q Quota, u *usage) quotaUse) func() []telemetry.Reading {
	return func() []telemetry.Reading {
		all := fullest{}
		for _, tenant := range a.tenantsToTell() {
			q := a.quotas.of(tenant)
			a.quotas.look(tenant, func(u *usage) { all.add(a.quotas.label(tenant), of(tenant, q, u)) })
		}
		return all.readings()
	}
}

// tenantsToTell are those with quotas of their own, and all that are known here.
func (a *Admission) tenantsToTell() []string {
	known := a.demand.tenants(time.Now())
	for tenant := range a.quotas.granted.Load().config {
		known[tenant] = true
	}
	a.quotas.mu.Lock()
	for tenant := range a.quotas.used {
		known[tenant] = true
	}
	a.quotas.mu.Unlock()
	delete(known, schemas.CanaryTenant)
	return slices.Collect(maps.Keys(known))
}

// look calls fn with what a tenant had, and remembers no tenant for it.
func (q *quotas) look(tenant string, fn func(*usage)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.used[tenant]
	if u == nil {
		u = &usage{}
	}
	fn(u)
}

// tenants are those whose requests wait, as far as this replica sees.
func (d *demand) tenants(now time.Time) map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]bool{}
	for _, w := range d.waiting {
		if !w.over(now) {
			all[w.flow.Tenant] = true
		}
	}
	return all
}

// showRefusals shows counters of refusals before there are any.
func (a *Admission) showRefusals() {
	for tenant, q := range a.quotas.granted.Load().config {
		for quota, has := range map[string]bool{quotaWaiting: q.Waiting > 0, quotaRequests: q.RequestsPerMinute > 0, quotaTokens: q.TokensPerMinute > 0, quotaLog: q.LogBytes > 0} {
			if has {
				a.metrics.Tenants.Refusals(a.quotas.label(tenant), quota) // at 0
			}
		}
	}
}

// Follow shows tenants' quotas until stop is called.
func (a *Admission) Follow() (stop func()) {
	a.showRefusals()
	stops := []func(){
		a.metrics.Tenants.Waiting.Follow(a.quotaReadings(func(tenant string, q Quota, _ *usage) quotaUse {
			n, _ := a.demand.of(tenant, q.Weight, time.Now())
			return quotaUse{float64(n), float64(q.Waiting) * a.seen()}
		})),
		a.metrics.Tenants.Tokens.Follow(a.quotaReadings(func(_ string, q Quota, u *usage) quotaUse {
			if q.TokensPerMinute == 0 {
				return quotaUse{}
			}
			rate := a.tokenRate(q)
			return quotaUse{u.tokens.Spent(a.demand.seconds(time.Now()), rate), math.Round(rate * time.Minute.Seconds())}
		})),
		a.metrics.Tenants.Log.Follow(a.quotaReadings(func(_ string, q Quota, u *usage) quotaUse {
			return quotaUse{float64(u.log.bytes(a.quotas.slot(time.Now()))), float64(q.LogBytes) * a.seen()}
		})),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Charge counts for its tenant what a request took that has ended: its tokens, and GB·s of
// experts' memory.
func (a *Admission) Charge(accept *pb.Accept, tokens int32, gigabyteSeconds float64) {
	tenant := a.quotas.label(schemas.FlowOf(accept).Tenant)
	a.metrics.Tenants.Ended(tenant, int(accept.GetPromptTokens()), int(tokens), gigabyteSeconds)
}

// quotaRefused counts a request that its tenant's quota refused.
func (a *Admission) quotaRefused(tenant, quota string) {
	a.metrics.Tenants.Refusals(a.quotas.label(tenant), quota).Inc()
}
