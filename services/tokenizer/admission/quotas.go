package admission

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
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
	// RequestsPerMinute are those that are accepted.
	RequestsPerMinute int64
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
	granted atomic.Pointer[granted]
	age     time.Duration // of token logs
	begun   time.Time     // logs' slots of time count from then on

	mu   sync.Mutex
	used map[string]*usage
}

// granted is what tenants may have, which an operator may change.
type granted struct {
	config map[string]Quota
	named  map[string]bool // tenants that metrics name
}

// usage is what a tenant had here.
type usage struct {
	requests policy.Bucket
	tokens   policy.Bucket
	last     float64 // what its newest request took of them
	promises policy.Promises
	log      logUse
}

func newQuotas(config map[string]Quota, age time.Duration) *quotas {
	q := &quotas{age: cmp.Or(age, schemas.DefaultLogAge), begun: time.Now(), used: map[string]*usage{}}
	q.set(config)
	return q
}

// set has tenants have other quotas from now on. What they had counts.
func (q *quotas) set(config map[string]Quota) {
	q.granted.Store(&granted{config, namedTenants(config)})
}

// of is a tenant's quota; canaries have none.
func (q *quotas) of(tenant string) Quota {
	if tenant == schemas.CanaryTenant {
		return Quota{}
	}
	config := q.granted.Load().config
	if own, ok := config[tenant]; ok {
		return own
	}
	return config[EveryoneElse]
}

// with calls fn with what a tenant had.
func (q *quotas) with(tenant string, fn func(*usage)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.used[tenant]
	if u == nil {
		if len(q.used) >= len(q.granted.Load().config)+maxTenants {
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
		if _, own := q.granted.Load().config[tenant]; !own {
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
	return a.checkRates(r, q, now)
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

// checkRates lets a tenant have requests, and take tokens, while it has some left of a minute's; each
// tokenizer grants its part of them.
func (a *Admission) checkRates(r Request, q Quota, now time.Time) (refused error) {
	if q.RequestsPerMinute == 0 && q.TokensPerMinute == 0 {
		return nil
	}
	at, grants := a.demand.seconds(now), a.grantors()
	a.quotas.with(r.Flow.Tenant, func(u *usage) {
		for _, of := range []struct {
			quota  string
			bucket *policy.Bucket
			minute int64
			need   float64 // of a new request; of tokens it may overdraw
			newest float64
		}{{quotaRequests, &u.requests, q.RequestsPerMinute, 1, 1}, {quotaTokens, &u.tokens, q.TokensPerMinute, 0, u.last}} {
			if of.minute == 0 || refused != nil {
				continue
			}
			rate := perSecond(of.minute, grants)
			wait := of.bucket.WaitFor(at, rate, of.need)
			if of.need == 0 {
				wait = of.bucket.Wait(at, rate)
			}
			if wait > 0 {
				a.quotaRefused(r.Flow.Tenant, of.quota)
				refused = overloaded(u.promises.Give(r.ID, at, wait, of.newest/rate, 0),
					"tenant %s has had the %d %s that it may have a minute (its quota of %s)", r.Flow.Tenant, of.minute, of.quota, of.quota)
			}
		}
	})
	return refused
}

// grantors is how many tokenizers grant parts of what tenants may have.
func (a *Admission) grantors() int {
	return max(1, len(members.OfService(a.members.Snapshot(), "tokenizer")))
}

// perSecond is how much a second each of several tokenizers grants of a minute's.
func perSecond(minute int64, grantors int) float64 {
	return float64(minute) / 60 / float64(grantors)
}

// tokenRate is how many tokens a second this replica grants.
func (a *Admission) tokenRate(q Quota) float64 { return perSecond(q.TokensPerMinute, a.grantors()) }

// SetQuotas has tenants have other quotas from now on. A request that was accepted keeps its weight.
func (a *Admission) SetQuotas(config map[string]Quota) {
	a.quotas.set(config)
	a.showRefusals()
}

// Limits are what a tenant may have a minute, and what of it is left, as far as this replica knows.
func (a *Admission) Limits(tenant string) (l schemas.Allowance) {
	q := a.quotas.of(tenant)
	if q.RequestsPerMinute == 0 && q.TokensPerMinute == 0 {
		return l
	}
	at, grants := a.demand.seconds(time.Now()), a.grantors()
	of := func(b *policy.Bucket, minute int64) schemas.Limit {
		if minute == 0 {
			return schemas.Limit{}
		}
		rate := perSecond(minute, grants)
		spent := b.Spent(at, rate)
		left := minute - int64(math.Ceil(spent*float64(grants)))
		return schemas.Limit{Most: minute, Left: max(0, left), Reset: time.Duration(spent / rate * float64(time.Second))}
	}
	a.quotas.look(tenant, func(u *usage) {
		l = schemas.Allowance{Requests: of(&u.requests, q.RequestsPerMinute), Tokens: of(&u.tokens, q.TokensPerMinute)}
	})
	return l
}

// spend counts a request that was accepted.
func (a *Admission) spend(r Request, tokens float64, now time.Time) {
	q := a.quotas.of(r.Flow.Tenant)
	if q.TokensPerMinute == 0 && q.RequestsPerMinute == 0 && q.Waiting == 0 {
		return
	}
	a.quotas.with(r.Flow.Tenant, func(u *usage) {
		u.promises.Keep(r.ID)
		u.last = tokens
		at, grants := a.demand.seconds(now), a.grantors()
		u.requests.Take(at, perSecond(q.RequestsPerMinute, grants), 1)
		u.tokens.Take(at, perSecond(q.TokensPerMinute, grants), tokens)
	})
}

// tokensPerSecond is at which rate a tokenizer's time counts against quotas of tokens, where it made none.
const tokensPerSecond = 1000

// ChargeTime counts against a tenant so many requests that were not accepted, and the time that they took.
func (a *Admission) ChargeTime(tenant string, requests float64, took time.Duration) {
	q := a.quotas.of(tenant)
	if q.TokensPerMinute == 0 && q.RequestsPerMinute == 0 {
		return
	}
	a.quotas.with(tenant, func(u *usage) {
		at, grants := a.demand.seconds(time.Now()), a.grantors()
		u.requests.Take(at, perSecond(q.RequestsPerMinute, grants), requests)
		u.tokens.Take(at, perSecond(q.TokensPerMinute, grants), tokensPerSecond*took.Seconds())
	})
}

// CheckSpent refuses work of a tenant that is no request, while it has had all tokens that it may have.
func (a *Admission) CheckSpent(tenant string) error {
	q := a.quotas.of(tenant)
	q.RequestsPerMinute = 0
	return a.checkRates(Request{Flow: schemas.Flow{Tenant: tenant}}, q, time.Now())
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
