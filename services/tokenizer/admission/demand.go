package admission

import (
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// demand is what waits for attention, by tenant, and how fast it gets done. A
// replica sees it in the logs of its own shards. Requests are spread over shards by
// a hash of their ids, so that it takes what it sees for its share of all: with one
// tokenizer that is exact.
type demand struct {
	mu       sync.Mutex
	waiting  map[string]*waiter // by request
	running  map[string]*waiter // those that had their turn
	swept    time.Time          // when those that count no more were looked for
	pace     policy.Pace
	promises policy.Lines // of places in the queue, and of first tokens in time
	begun    time.Time    // all times are seconds since then

	// How long prompts took from their turn to their first token, and how many
	// tokens they had; what was seen before counts less with each.
	prefillSeconds, prefillTokens float64
}

// waiter is a request that waits.
type waiter struct {
	flow   schemas.Flow
	weight float64
	work   float64
	own    bool // all its rows are to have their own experts
	// until is when it counts no more unless its shard's owner here has seen it;
	// zero: it has.
	until time.Time
}

func newDemand() *demand {
	return &demand{waiting: map[string]*waiter{}, running: map[string]*waiter{}, begun: time.Now()}
}

// seconds is a time as admission has it.
func (d *demand) seconds(now time.Time) float64 { return now.Sub(d.begun).Seconds() }

// enterWithin is how long a request counts that is being accepted here.
const enterWithin = 10 * time.Second

// over says that a request counts no more.
func (w *waiter) over(now time.Time) bool { return !w.until.IsZero() && now.After(w.until) }

// sweep forgets, now and then, what counts no more: a shard that goes to another replica
// takes along the owner that would have seen to it.
func (d *demand) sweep(now time.Time) {
	if now.Sub(d.swept) < enterWithin {
		return
	}
	d.swept = now
	maps.DeleteFunc(d.waiting, func(_ string, w *waiter) bool { return w.over(now) })
}

// enter counts a request that is about to be accepted; false: it waits already.
func (d *demand) enter(request string, flow schemas.Flow, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep(now)
	if d.waiting[request] != nil {
		return false
	}
	d.waiting[request] = &waiter{flow: flow, until: now.Add(enterWithin)}
	return true
}

// expect says what a request that entered will take.
func (d *demand) expect(request string, weight, work float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.waiting[request]; w != nil {
		w.weight, w.work = weight, work
	}
}

// leave counts a request no more that entered and is not waiting after all, or
// leaves it to the owner of its shard.
func (d *demand) leave(request string, seenWithin time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.waiting[request]; w == nil || w.until.IsZero() {
		return
	} else if seenWithin > 0 {
		w.until = now.Add(seenWithin)
		return
	}
	delete(d.waiting, request)
}

// accepted counts a request of a shard that is served here.
func (d *demand) accepted(request string, a *pb.Accept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[request] = waiterOf(a)
}

func waiterOf(a *pb.Accept) *waiter {
	return &waiter{flow: schemas.FlowOf(a), weight: float64(a.Weight), work: workOf(a), own: a.GetSequence().GetOwnExperts()}
}

// runs counts a request that had its turn, and over none that ended, or is another replica's.
func (d *demand) runs(request string, a *pb.Accept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[request] = waiterOf(a)
}

func (d *demand) over(request string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, request)
}

// holder is what a tenant has under way.
type holder struct {
	weight, work float64
	own          bool // of something no row may be degraded
}

// bearable reports whether a request may come though steps take too long, as others are to be refused before it:
// first those of tenants that have more than their share of what is under way and spare it from brownouts, then
// others of such tenants, and then all.
func (d *demand) bearable(r Request, weight float64, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	asks := &holder{weight: weight}
	all := map[string]*holder{r.Flow.Tenant: asks}
	for _, m := range []map[string]*waiter{d.waiting, d.running} {
		for id, w := range m {
			if id == r.ID || w.over(now) {
				continue
			}
			h := all[w.flow.Tenant]
			if h == nil {
				h = &holder{weight: w.weight}
				all[w.flow.Tenant] = h
			}
			h.work, h.own = h.work+max(1, w.work), h.own || w.own
		}
	}
	work, weights := 0.0, 0.0
	for _, h := range all {
		h.weight = max(1, h.weight)
		work, weights = work+h.work, weights+h.weight
	}
	rank := func(h *holder, own bool) int {
		switch over := h.work*weights > (1+slight)*work*h.weight; {
		case over && own:
			return 2
		case over:
			return 1
		}
		return 0
	}
	for _, h := range all {
		if h != asks && rank(h, h.own) > rank(asks, r.OwnExperts) {
			return true
		}
	}
	return false
}

// slight is by how much more than others somebody has more than its share.
const slight = 1e-9

// turn says that a request had its turn, or ended before.
func (d *demand) turn(request string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, request)
}

// done counts a request that ended after its turn.
func (d *demand) done(a *pb.Accept, t *pb.Timings, busy bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pace.Advance(d.seconds(now), busy)
	d.pace.Done(workOf(a))
	if took := t.GetTtft() - t.GetQueue(); t.GetTtft() > 0 && took >= 0 {
		d.prefillSeconds, d.prefillTokens = keepPrefill*d.prefillSeconds+took, keepPrefill*d.prefillTokens+float64(a.PromptTokens)
	}
}

// keepPrefill is the share of its weight that a prompt keeps with each later one.
const keepPrefill = 0.9

// workOf is what a request takes at most, in tokens.
func workOf(a *pb.Accept) float64 { return float64(a.GetPromptTokens()) + float64(a.GetMaxTokens()) }

// loads is what waits of each flow, of what this replica sees.
func (d *demand) loads(now time.Time) []policy.Load {
	sums := map[schemas.Flow]*policy.Load{}
	for _, w := range d.waiting {
		if w.over(now) {
			continue
		}
		l := sums[w.flow]
		if l == nil {
			l = &policy.Load{Flow: w.flow}
			sums[w.flow] = l
		}
		l.Weight, l.Requests, l.Work = max(l.Weight, w.weight), l.Requests+1, l.Work+w.work
	}
	out := make([]policy.Load, 0, len(sums))
	for _, l := range sums {
		out = append(out, *l)
	}
	return out
}

// of is how many requests of a tenant wait, of those that this replica sees, and
// its share of the machine while they do.
func (d *demand) of(tenant string, weight uint32, now time.Time) (n int, share float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	loads := d.loads(now)
	for _, l := range loads {
		if l.Flow.Tenant == tenant {
			n += l.Requests
		}
	}
	return n, policy.Share(loads, tenant, float64(weight))
}

// forecast is when a request that comes now would have its turn and its first
// token, in seconds; zeros: at once, or it is not known.
type forecast struct {
	turn, first float64
	each        float64 // how long its own work keeps the machine
}

// forecast predicts for a request that entered: what goes before it takes as long
// as such work took lately. seen is of all requests what this replica sees.
func (d *demand) forecast(request string, a *pb.Accept, seen float64, now time.Time) forecast {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, flow, weight := workOf(a), schemas.FlowOf(a), float64(a.Weight)
	waiting, at := d.loads(now), d.seconds(now)
	ahead := max(0, policy.Ahead(waiting, flow, weight)-own)
	promised := d.promises.Until(policy.Asker{Tenant: flow.Tenant, Request: request}, at, at+d.pace.Takes(ahead))
	for _, p := range promised {
		waiting = append(waiting, loadOf(p, flow.Class, seen))
	}
	ahead = max(0, policy.Ahead(waiting, flow, weight)-own)
	f := forecast{turn: d.pace.Takes(ahead), each: seen * d.pace.Takes(own)}
	f.first = f.turn
	if d.prefillTokens > 0 {
		f.first += float64(a.PromptTokens) * d.prefillSeconds / d.prefillTokens
	}
	return f
}

// loadOf is what a tenant was promised as if it waited already. Promises are given to
// all requests that come here, of which so many will be seen.
func loadOf(p policy.Promised, class schemas.Class, seen float64) policy.Load {
	return policy.Load{
		Flow: schemas.Flow{Tenant: p.Tenant, Class: class}, Weight: p.Weight,
		Requests: max(1, int(seen*float64(p.Requests))), Work: seen * p.Work,
	}
}

// asker is the one that asks, with its tenant's share beside those who wait; d.mu is held.
func (d *demand) asker(r Request, weight uint32, now time.Time) policy.Asker {
	a := policy.Asker{Tenant: r.Flow.Tenant, Request: r.ID, Weight: float64(weight)}
	a.Share = policy.Share(d.loads(now), a.Tenant, a.Weight)
	return a
}

// promise promises a request a time, in seconds from now.
func (d *demand) promise(r Request, weight uint32, now time.Time, first, each, work float64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.promises.Give(d.asker(r, weight, now), d.seconds(now), first, each, work)
}

// held is how many of so many places are held for others.
func (d *demand) held(r Request, places int, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.promises.Held(policy.Asker{Tenant: r.Flow.Tenant, Request: r.ID}, d.seconds(now), places)
}

// places is in how many seconds so many places are free, and how long each takes.
func (d *demand) places(n int, share float64) (first, each float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if each = share * d.pace.Each(); each == 0 {
		return OverloadPause.Seconds(), 0
	}
	return float64(n) * each, each
}

// kept says that a request was accepted, whatever it was promised.
func (d *demand) kept(tenant, request string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.promises.Keep(tenant, request)
}

// OverloadPause is how long an overloaded producer should wait.
const OverloadPause = 2 * time.Second

// RetryLater gives an overload the pause after which to try again.
func RetryLater(err error) error {
	var e *edge.Error
	if errors.As(err, &e) && e.Code == edge.Overloaded && e.RetryAfter == 0 {
		e.RetryAfter = OverloadPause
	}
	return err
}

// overloaded is a refusal that says in how many seconds to come again.
func overloaded(seconds float64, format string, args ...any) error {
	refused := edge.Errorf(edge.Overloaded, format, args...)
	refused.RetryAfter = After(seconds)
	return refused
}

// Jitter keeps producers apart that are told the same; it is less than promises are kept for.
const (
	jitterShare = 0.1
	mostJitter  = policy.Grace / 2.0
)

// After is what a producer is told of a time in seconds.
func After(seconds float64) time.Duration {
	seconds += rand.Float64() * min(jitterShare*seconds, mostJitter)
	return time.Duration(seconds * float64(time.Second))
}

// BadRequest is an error of what a producer sent.
func BadRequest(err error) error {
	if err == nil {
		return nil
	}
	return edge.Errorf(edge.BadRequest, "%v", err)
}

// UsableID is a request's id as a refusal may repeat it.
func UsableID(id string) string {
	if schemas.CheckRequestID(id) != nil {
		return ""
	}
	return id
}
