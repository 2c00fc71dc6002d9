package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
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
			return s.admission.Waiting() == waiting && s.probe.Sequences.Waiting(r.ctx(), time.Now()) == waiting
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
