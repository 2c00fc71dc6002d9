package admission

import (
	"cmp"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/schemas"
)

// Quota is what a tenant may have. What is 0 has no bound.
type Quota struct {
	// Weight is its share beside other tenants'; 0 is 1.
	Weight uint32
	// Waiting is how many of its requests may wait for their turn.
	Waiting int
	// TokensPerMinute are those of prompts and the most that answers may have.
	TokensPerMinute int64
	// LogBytes are what its requests may take of the token log.
	LogBytes int64
}

// EveryoneElse names the quota of tenants that have none of their own.
const EveryoneElse = "*"

// maxTenants bounds the tenants without a quota of their own whose use is remembered.
const maxTenants = 4096

// quotas say what tenants may have, and remember what they had.
type quotas struct {
	config map[string]Quota
	named  map[string]bool // tenants that metrics name
	age    time.Duration   // of token logs
	begun  time.Time       // logs' slots of time count from then on

	mu   sync.Mutex
	used map[string]*usage
}

// usage is what a tenant had here.
type usage struct {
	tokens   policy.Bucket
	last     float64 // what its newest request took of them
	promises policy.Promises
	log      logUse
}

func newQuotas(config map[string]Quota, age time.Duration) *quotas {
	return &quotas{config: config, named: namedTenants(config), age: cmp.Or(age, schemas.DefaultLogAge), begun: time.Now(), used: map[string]*usage{}}
}

// of is a tenant's quota; canaries have none.
func (q *quotas) of(tenant string) Quota {
	if tenant == schemas.CanaryTenant {
		return Quota{}
	}
	if own, ok := q.config[tenant]; ok {
		return own
	}
	return q.config[EveryoneElse]
}

// with calls fn with what a tenant had.
func (q *quotas) with(tenant string, fn func(*usage)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.used[tenant]
	if u == nil {
		if len(q.used) >= len(q.config)+maxTenants {
			q.forgetOne()
		}
		u = &usage{}
		q.used[tenant] = u
	}
	fn(u)
}

// forgetOne forgets what some tenant had, but none with a quota of its own. It is
// better to give a tenant more than its quota than to count against it what others had.
func (q *quotas) forgetOne() {
	for tenant := range q.used { // begins anywhere
		if _, own := q.config[tenant]; !own {
			delete(q.used, tenant)
			return
		}
	}
}

// checkQuotas refuses a request whose tenant has as much as it may.
func (a *Admission) checkQuotas(r Request, now time.Time) error {
	q := a.quotas.of(r.Flow.Tenant)
	if err := a.checkWaiting(r, q, now); err != nil {
		return err
	}
	return a.checkTokens(r, q, now)
}

// checkWaiting counts those that wait beside this one, which entered before.
func (a *Admission) checkWaiting(r Request, q Quota, now time.Time) error {
	if q.Waiting == 0 {
		return nil
	}
	waiting, share := a.demand.of(r.Flow.Tenant, q.Weight, now)
	waiting = int(float64(waiting-1) / a.seen())
	var refused error
	a.quotas.with(r.Flow.Tenant, func(u *usage) {
		at := a.demand.seconds(now)
		held := u.promises.Held(r.ID, at)
		bound := q.Waiting - min(held, q.Waiting/2)
		if waiting < bound {
			return
		}
		first, each := a.demand.places(waiting-bound+1, a.seen()/share)
		a.quotaRefused(r.Flow.Tenant, quotaWaiting)
		refused = overloaded(u.promises.Give(r.ID, at, first, each, 0),
			"%d requests of tenant %s wait already, and %d may (its quota of waiting requests)", waiting, r.Flow.Tenant, q.Waiting)
	})
	return refused
}

// checkTokens lets a tenant take tokens while it has some left; each tokenizer
// grants its part of them.
func (a *Admission) checkTokens(r Request, q Quota, now time.Time) error {
	if q.TokensPerMinute == 0 {
		return nil
	}
	rate, at := a.tokenRate(q), a.demand.seconds(now)
	var refused error
	a.quotas.with(r.Flow.Tenant, func(u *usage) {
		wait := u.tokens.Wait(at, rate)
		if wait == 0 {
			return
		}
		a.quotaRefused(r.Flow.Tenant, quotaTokens)
		refused = overloaded(u.promises.Give(r.ID, at, wait, u.last/rate, 0),
			"tenant %s has had the %d tokens that it may have a minute (its quota of tokens)", r.Flow.Tenant, q.TokensPerMinute)
	})
	return refused
}

// tokenRate is how many tokens a second this replica grants.
func (a *Admission) tokenRate(q Quota) float64 {
	replicas := max(1, len(members.OfService(a.members.Snapshot(), "tokenizer")))
	return float64(q.TokensPerMinute) / 60 / float64(replicas)
}

// spend counts a request that was accepted.
func (a *Admission) spend(r Request, tokens float64, now time.Time) {
	q := a.quotas.of(r.Flow.Tenant)
	if q.TokensPerMinute == 0 && q.Waiting == 0 {
		return
	}
	a.quotas.with(r.Flow.Tenant, func(u *usage) {
		u.promises.Keep(r.ID)
		u.last = tokens
		u.tokens.Take(a.demand.seconds(now), a.tokenRate(q), tokens)
	})
}

// restore gives a tenant the tokens back that a request did not need.
func (a *Admission) restore(tenant string, tokens float64, now time.Time) {
	if q := a.quotas.of(tenant); q.TokensPerMinute > 0 {
		a.quotas.with(tenant, func(u *usage) { u.tokens.Take(a.demand.seconds(now), a.tokenRate(q), -tokens) })
	}
}

// checkLog refuses a request whose log would be more than its tenant may have.
func (a *Admission) checkLog(r Request, need int64, now time.Time) error {
	q := a.quotas.of(r.Flow.Tenant)
	if q.LogBytes == 0 {
		return nil
	}
	var have int64
	a.quotas.with(r.Flow.Tenant, func(u *usage) { have = int64(float64(u.log.bytes(a.quotas.slot(now))) / a.seen()) })
	if have+need <= q.LogBytes {
		return nil
	}
	a.quotaRefused(r.Flow.Tenant, quotaLog)
	return overloaded(policy.Horizon, "requests of tenant %s have %d bytes of the token log, this one may need %d, and %d may be (its quota of the log): records leave it with their age (--log-age)",
		r.Flow.Tenant, have, need, q.LogBytes)
}

// Logged counts what a request's log has more, or less, of its tenant.
func (a *Admission) Logged(tenant string, change int64) {
	if change != 0 && a.quotas.of(tenant).LogBytes > 0 {
		// What was counted before its use was forgotten is not taken off again.
		a.quotas.with(tenant, func(u *usage) { u.log.live = max(0, u.log.live+change) })
	}
}

// Kept counts what stays of a log that was delivered until it ages.
func (a *Admission) Kept(tenant string, bytes int64, now time.Time) {
	if a.quotas.of(tenant).LogBytes > 0 {
		a.quotas.with(tenant, func(u *usage) { u.log.keep(bytes, a.quotas.slot(now)) })
	}
}

// logUse is what a tenant's logs take: of requests under way, and of those that
// ended, in slots of time.
type logUse struct {
	live  int64
	ended [logSlots]logSlot
}

type logSlot struct {
	number int64
	bytes  int64
}

// logSlots is in how many steps logs age.
const logSlots = 16

// slot is the number of a moment's slot.
func (q *quotas) slot(now time.Time) int64 {
	return int64(now.Sub(q.begun) / max(1, q.age/(logSlots-1)))
}

// keep counts what stays of a log that ended in a slot.
func (u *logUse) keep(bytes, slot int64) {
	of := &u.ended[slot%logSlots]
	if of.number != slot {
		*of = logSlot{number: slot}
	}
	of.bytes += bytes
}

// bytes is what there is in a slot of all that was kept.
func (u *logUse) bytes(slot int64) int64 {
	sum := u.live
	for _, of := range u.ended {
		if slot-of.number < logSlots {
			sum += of.bytes
		}
	}
	return max(0, sum)
}
