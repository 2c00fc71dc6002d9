package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// quotaRig is a rig whose one tokenizer has quotas and serves all shards.
func quotaRig(t *testing.T, tenants map[string]Quota) *rig {
	t.Helper()
	r := newRig(t, 0)
	s := r.replica(func(c *Config) { c.Tenants = tenants })
	r.eventually("it serves all shards", func() bool { return s.shards.count() == schemas.LogShards })
	return r
}

// promptOf sends a tenant's prompt and returns who gets its answer.
func (r *rig) promptOf(tenant, id, rest string) *reader {
	r.t.Helper()
	got := r.inbox()
	body := fmt.Sprintf(`{"request_id":%q,"text":"hi"%s}`, id, rest)
	f := schemas.Flow{Tenant: tenant, Class: schemas.ClassNormal}
	r.send(r.d.Subjects.PromptOf(f), "", []byte(body), nats.Header{schemas.HeaderReplyTo: {got.subject}})
	return got
}

// refused wants a refusal that names a quota, and when to come again.
func (g *reader) refused(quota string, least, most float64) {
	g.r.t.Helper()
	e := g.end().Error
	if e.GetCode() != "overloaded" || !strings.Contains(e.GetMessage(), quota) || e.GetRetryAfter() < least || e.GetRetryAfter() > most {
		g.r.t.Errorf("%v; want %q and to come again in %v to %v s", e, quota, least, most)
	}
}

func TestQuotaOfWaiting(t *testing.T) {
	t.Parallel()
	r := quotaRig(t, map[string]Quota{"acme": {Waiting: 2, Weight: 3}, "*": {Waiting: 1}})
	r.promptOf("acme", "a1", "")
	r.promptOf("acme", "a2", "")
	if w := r.opened("a1").Weight; w != 3 {
		t.Errorf("its weight is %d", w)
	}
	r.opened("a2")
	r.promptOf("acme", "a3", "").refused("2 requests of tenant acme wait already, and 2 may (its quota of waiting requests)", 0.1, 3)
	again := r.promptOf("acme", "a1", "") // is no new one
	r.promptOf("other", "o1", "")
	r.opened("o1")
	r.promptOf("other", "o2", "").refused("1 requests of tenant other", 0.1, 3)
	w := r.claim("a1")
	r.append(w, token(0))
	r.eventually("a1 goes on", func() bool { return len(again.all()) > 0 })
	r.eventually("a3 gets in when it comes again", func() bool {
		r.promptOf("acme", "a3", "")
		_, err := r.log.Opening(r.ctx(), "a3")
		return err == nil
	})
}

// size is how many wait, as a replica sees it.
func (d *demand) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// Who has filled the queue leaves others their share of it, up to twice the places.
func TestFullQueueHasRoomForOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica(func(c *Config) { c.MaxQueued = 4 })
	r.eventually("it serves all shards", func() bool { return s.shards.count() == schemas.LogShards })
	const full = "requests wait already, and 4 may (--max-queued)"
	waiting := 0
	waits := func(tenant, id string) { // it is opened before it is queued, and counted then
		r.promptOf(tenant, id, "")
		r.opened(id)
		waiting++
		r.eventually(id+" counts, and whose all are is seen in the shards", func() bool {
			return s.demand.size() == waiting && s.probe.Sequences.Waiting(r.ctx(), time.Now()) == waiting
		})
	}
	for i := range 4 {
		waits("most", fmt.Sprint("m", i))
	}
	r.promptOf("most", "m4", "").refused(full, 0.1, 3)
	waits("other", "o0")
	waits("other", "o1")
	r.promptOf("other", "o2", "").refused(full, 0.1, 3)
	waits("third", "t0")
	waits("third", "t1")
	r.promptOf("most", "m5", "").refused(full, 0.1, 3)
	r.promptOf("fourth", "f0", "").refused(full, 0.1, 3)
}

// A request may overdraw; what an answer did not need is given back.
func TestQuotaOfTokens(t *testing.T) {
	t.Parallel()
	r := quotaRig(t, map[string]Quota{"acme": {TokensPerMinute: 100}})
	r.promptOf("acme", "a1", `,"max_tokens":198`) // and two of the prompt
	r.opened("a1")
	r.eventually("it is settled", r.settled) // its log is open before its tokens are counted
	r.promptOf("acme", "a2", "").refused("tenant acme has had the 100 tokens that it may have a minute (its quota of tokens)", 5, 62)
	r.promptOf("other", "o1", `,"max_tokens":198`)
	r.opened("o1")
	r.append(r.claim("a1"), token(0), ending("stop"))
	r.eventually("its end gives 197 back", func() bool {
		id := fmt.Sprint("a", time.Now().UnixNano())
		got := r.promptOf("acme", id, "")
		r.eventually("an answer", func() bool {
			_, err := r.log.Opening(r.ctx(), id)
			return err == nil || len(got.ends()) > 0
		})
		return len(got.ends()) == 0
	})
}

func TestQuotaOfLog(t *testing.T) {
	t.Parallel()
	r := quotaRig(t, map[string]Quota{"acme": {LogBytes: 40_000}})
	const many = `,"max_tokens":100` // each reserves about 20,000 bytes
	r.promptOf("acme", "a1", many)
	need := r.opened("a1").LogBytes
	if need < 10_000 || need > 30_000 {
		t.Fatalf("a request reserves %d bytes", need)
	}
	var refused *reader
	r.eventually("the quota is used up", func() bool {
		got := r.promptOf("acme", fmt.Sprint("a", time.Now().UnixNano()), many)
		r.eventually("an answer, or none", func() bool { return len(got.ends()) > 0 || r.terminal("a1") == nil })
		refused = got
		time.Sleep(20 * time.Millisecond)
		return len(got.ends()) > 0
	})
	refused.refused("(its quota of the log)", 50, 70)
	r.promptOf("other", "o1", many)
	r.opened("o1")
}

func TestLogUse(t *testing.T) {
	var u logUse
	q := newQuotas(nil, 150*time.Minute)
	at := func(after time.Duration) int64 { return q.slot(q.begun.Add(after)) }
	u.live = 5
	u.keep(100, at(0))
	u.keep(10, at(time.Hour))
	u.keep(-90, at(0)) // packed
	for after, want := range map[time.Duration]int64{0: 25, time.Hour: 25, 140 * time.Minute: 25, 170 * time.Minute: 15, 4 * time.Hour: 5} {
		if got := u.bytes(at(after)); got != want {
			t.Errorf("%v later it has %d bytes, want %d", after, got, want)
		}
	}
}

// Logs age by the time that passes, whatever a host's clock is set to meanwhile.
func TestLogUseOfAHostWhoseClockIsSet(t *testing.T) {
	const age = time.Hour
	for _, tc := range []struct {
		name      string
		after, by time.Duration
		refused   bool
	}{
		{"forward", time.Second, 24 * time.Hour, true},
		{"back", 2 * age, -24 * time.Hour, false},
	} {
		s := &Service{metrics: telemetry.NewMetrics(prometheus.NewRegistry()), quotas: newQuotas(map[string]Quota{EveryoneElse: {LogBytes: 1000}}, age)}
		now := time.Now()
		s.keptLog("acme", 100, now) // of one shard of eight
		in := &incoming{flow: schemas.Flow{Tenant: "acme"}}
		if err := s.checkLog(in, 300, testkit.WallSet(t, now.Add(tc.after), tc.by)); (err != nil) != tc.refused {
			t.Errorf("%s: refused by %v", tc.name, err)
		}
	}
}

// Names that somebody makes up are forgotten again, and nobody pays for them.
func TestManyTenants(t *testing.T) {
	q := newQuotas(map[string]Quota{"acme": {Waiting: 1}, EveryoneElse: {Waiting: 1}}, time.Hour)
	spend := func(tenant string) { q.with(tenant, func(u *usage) { u.log.live++ }) }
	spend("acme")
	for i := range 2 * maxTenants {
		spend(fmt.Sprint("made-up-", i))
	}
	if n := len(q.used); n > maxTenants+len(q.config) {
		t.Errorf("%d tenants are remembered", n)
	}
	for tenant, want := range map[string]int64{"acme": 1, "newcomer": 0} {
		q.with(tenant, func(u *usage) {
			if u.log.live != want {
				t.Errorf("%s has %d, want %d", tenant, u.log.live, want)
			}
		})
	}
}

// A first token is predicted from what goes before and how fast that got done.
func TestForecast(t *testing.T) {
	d, now := newDemand(), time.Now()
	accept := func(tenant string) *pb.Accept { return &pb.Accept{Tenant: tenant, PromptTokens: 20, MaxTokens: 80} }
	predict := func() forecast {
		d.enter("new", schemas.Flow{Tenant: "me", Class: schemas.ClassNormal}, now)
		d.expect("new", 1, 100)
		defer d.leave("new", 0, now)
		return d.forecast("new", accept("me"), 1, now)
	}
	for i := range 10 {
		d.accepted(fmt.Sprint("hot", i), accept("hot"))
	}
	if f := predict(); f.turn != 0 || f.first != 0 {
		t.Errorf("%+v is predicted though nothing was seen", f)
	}
	for range 20 { // ten requests, 1,000 tokens a second
		now = now.Add(100 * time.Millisecond)
		d.done(accept("hot"), &pb.Timings{Queue: 1, Ttft: 1.02}, true, now)
	}
	if f := predict(); f.turn < 0.18 || f.turn > 0.25 || f.first-f.turn < 0.015 || f.first-f.turn > 0.025 { // one of each tenant
		t.Errorf("behind another's ten: %+v", f)
	}
	for i := range 10 {
		d.accepted(fmt.Sprint("mine", i), accept("me"))
	}
	if f := predict(); f.turn < 1.8 || f.turn > 2.5 {
		t.Errorf("behind ten of its own and another's ten: %+v", f)
	}
	for i := range 10 {
		d.turn(fmt.Sprint("hot", i))
		d.turn(fmt.Sprint("mine", i))
	}
	if f := predict(); f.turn != 0 || len(d.waiting) != 0 {
		t.Errorf("behind nobody: %+v", f)
	}
}

// Who was promised all times there are makes no other tenant wait for them.
func TestForecastBesidePromises(t *testing.T) {
	d, now := newDemand(), time.Now()
	accept := func(tenant string) *pb.Accept { return &pb.Accept{Tenant: tenant, PromptTokens: 20, MaxTokens: 80} }
	of := func(tenant, id string) *incoming {
		return &incoming{prompt: &pb.Prompt{RequestId: id}, flow: schemas.Flow{Tenant: tenant, Class: schemas.ClassNormal}}
	}
	for i := range 10 {
		d.accepted(fmt.Sprint("hot", i), accept("hot"))
		d.accepted(fmt.Sprint("mine", i), accept("me"))
	}
	for range 20 { // ten requests, 1,000 tokens a second
		now = now.Add(100 * time.Millisecond)
		d.done(accept("hot"), &pb.Timings{}, true, now)
	}
	predict := func() forecast {
		d.enter("new", schemas.Flow{Tenant: "me", Class: schemas.ClassNormal}, now)
		d.expect("new", 1, 100)
		defer d.leave("new", 0, now)
		return d.forecast("new", accept("me"), 1, now)
	}
	before := predict()
	for i := range 500 {
		d.promise(of("hot", fmt.Sprint("promised", i)), 1, now, 0.1, 0.1, 100)
	}
	if f := predict(); f.turn < before.turn || f.turn > before.turn+0.2 { // one of it more may go first
		t.Errorf("beside another's promises: %+v, without: %+v", f, before)
	}
	if after := d.promise(of("me", "new"), 1, now, 0.3, 0.1, 100); math.Abs(after-0.3) > 1e-6 {
		t.Errorf("it is told to come in %v s", after)
	}
	for i := range 5 {
		d.promise(of("me", fmt.Sprint("own", i)), 1, now, 0.3, 0.1, 100)
	}
	if f := predict(); f.turn < before.turn+0.5 {
		t.Errorf("behind promises of its own: %+v, without: %+v", f, before)
	}
	if n := d.held(of("me", "other"), 10, now); n != 10 {
		t.Errorf("%d of 10 places are held", n)
	}
}
