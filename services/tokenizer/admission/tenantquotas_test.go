package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// quotaRig is a rig whose one tokenizer has quotas and serves all shards.
func quotaRig(t *testing.T, tenants map[string]tokenizer.Quota) *rig.Rig {
	t.Helper()
	r := rig.New(t, 0)
	s := r.Replica(func(c *tokenizer.Config) { c.Tenants = tenants })
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
	return r
}

// refused wants a refusal that names a quota, and when to come again.
func wantRefused(g *rig.Reader, quota string, least, most float64) {
	g.R.T.Helper()
	e := g.End().Error
	if e.GetCode() != "overloaded" || !strings.Contains(e.GetMessage(), quota) || e.GetRetryAfter() < least || e.GetRetryAfter() > most {
		g.R.T.Errorf("%v; want %q and to come again in %v to %v s", e, quota, least, most)
	}
}

func TestQuotaOfWaiting(t *testing.T) {
	t.Parallel()
	r := quotaRig(t, map[string]tokenizer.Quota{"acme": {Waiting: 2, Weight: 3}, "*": {Waiting: 1}})
	r.PromptOf("acme", "a1", "")
	r.PromptOf("acme", "a2", "")
	if w := r.Opened("a1").Weight; w != 3 {
		t.Errorf("its weight is %d", w)
	}
	r.Opened("a2")
	wantRefused(r.PromptOf("acme", "a3", ""), "2 requests of tenant acme wait already, and 2 may (its quota of waiting requests)", 0.1, 3)
	again := r.PromptOf("acme", "a1", "") // is no new one
	r.PromptOf("other", "o1", "")
	r.Opened("o1")
	wantRefused(r.PromptOf("other", "o2", ""), "1 requests of tenant other", 0.1, 3)
	w := r.Claim("a1")
	r.Append(w, rig.Token(0))
	r.Eventually("a1 goes on", func() bool { return len(again.All()) > 0 })
	r.Eventually("a3 gets in when it comes again", func() bool {
		r.PromptOf("acme", "a3", "")
		_, err := r.Log.Opening(r.Ctx(), "a3")
		return err == nil
	})
}

// Who has filled the queue leaves others their share of it, up to twice the places.
func TestFullQueueHasRoomForOthers(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica(func(c *tokenizer.Config) { c.MaxQueued = 4 })
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
	const full = "requests wait already, and 4 may (--max-queued)"
	waiting := 0
	waits := func(tenant, id string) { // it is opened before it is queued, and counted then
		r.PromptOf(tenant, id, "")
		r.Opened(id)
		waiting++
		r.Eventually(id+" counts, and whose all are is seen in the shards", func() bool {
			return s.Admission.Waiting() == waiting && s.Probe.Sequences.Waiting(r.Ctx(), time.Now()) == waiting
		})
	}
	for i := range 4 {
		waits("most", fmt.Sprint("m", i))
	}
	wantRefused(r.PromptOf("most", "m4", ""), full, 0.1, 3)
	waits("other", "o0")
	waits("other", "o1")
	wantRefused(r.PromptOf("other", "o2", ""), full, 0.1, 3)
	waits("third", "t0")
	waits("third", "t1")
	wantRefused(r.PromptOf("most", "m5", ""), full, 0.1, 3)
	wantRefused(r.PromptOf("fourth", "f0", ""), full, 0.1, 3)
}

// A request may overdraw; what an answer did not need is given back.
func TestQuotaOfTokens(t *testing.T) {
	t.Parallel()
	r := quotaRig(t, map[string]tokenizer.Quota{"acme": {TokensPerMinute: 100}})
	r.PromptOf("acme", "a1", `,"max_tokens":198`) // and two of the prompt
	r.Opened("a1")
	r.Eventually("it is settled", r.Settled) // its log is open before its tokens are counted
	wantRefused(r.PromptOf("acme", "a2", ""), "tenant acme has had the 100 tokens that it may have a minute (its quota of tokens)", 5, 62)
	r.PromptOf("other", "o1", `,"max_tokens":198`)
	r.Opened("o1")
	r.Append(r.Claim("a1"), rig.Token(0), rig.Ending("stop"))
	r.Eventually("its end gives 197 back", func() bool {
		id := fmt.Sprint("a", time.Now().UnixNano())
		got := r.PromptOf("acme", id, "")
		r.Eventually("an answer", func() bool {
			_, err := r.Log.Opening(r.Ctx(), id)
			return err == nil || len(got.Ends()) > 0
		})
		return len(got.Ends()) == 0
	})
}

func TestQuotaOfLog(t *testing.T) {
	t.Parallel()
	r := quotaRig(t, map[string]tokenizer.Quota{"acme": {LogBytes: 40_000}})
	const many = `,"max_tokens":100` // each reserves about 20,000 bytes
	r.PromptOf("acme", "a1", many)
	need := r.Opened("a1").LogBytes
	if need < 10_000 || need > 30_000 {
		t.Fatalf("a request reserves %d bytes", need)
	}
	var refused *rig.Reader
	r.Eventually("the quota is used up", func() bool {
		got := r.PromptOf("acme", fmt.Sprint("a", time.Now().UnixNano()), many)
		r.Eventually("an answer, or none", func() bool { return len(got.Ends()) > 0 || r.Terminal("a1") == nil })
		refused = got
		time.Sleep(20 * time.Millisecond)
		return len(got.Ends()) > 0
	})
	wantRefused(refused, "(its quota of the log)", 50, 70)
	r.PromptOf("other", "o1", many)
	r.Opened("o1")
}

// Canaries are in no quota, and count for none that waits.
func TestCanariesAreUncounted(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	for _, service := range []string{"gate", "expert", "aggregator"} {
		r.Join(service)
	}
	s := r.Replica(func(c *tokenizer.Config) {
		c.CanaryEvery, c.MaxQueued, c.Tenants = time.Hour, 1, map[string]tokenizer.Quota{tokenizer.EveryoneElse: {Waiting: 1, TokensPerMinute: 1, LogBytes: 1}}
	})
	r.Append(r.Claim(r.Canary(s)), rig.Token(0), rig.Ending("length"))
	r.Eventually("it is ready", func() bool { return s.Ready() == nil })
	if tenants, waiting := s.Admission.Remembered(), s.Admission.Waiting(); tenants > 0 || waiting > 0 {
		t.Errorf("%d tenants have had something, and %d requests wait", tenants, waiting)
	}
}
