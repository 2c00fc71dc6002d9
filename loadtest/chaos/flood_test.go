package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// TestFlood lets a producer fill the buckets that take any key to their bounds, and try to
// do so with that of plans, by the server's acknowledgements of one prompt that
// he sends again and again: answers are whole meanwhile, plans stay, and a gate that comes
// afterwards finds all that it needs.
func TestFlood(t *testing.T) {
	wantedMinutes(t)
	g := newGuarded(t)
	nc := g.producer(producer)
	g.complete(t, nc, "before", 8)
	keys := g.keys(t, known)
	for _, bucket := range []string{known, "functions", "leases", "members"} {
		begun := time.Now()
		beside, asked := g.producer(producer), make(chan struct{})
		go func() {
			defer close(asked)
			g.complete(t, beside, "beside-"+bucket, 200)
		}()
		count := floods
		if bucket == known { // of which none are to be stored
			count /= 10
		}
		g.flood(t, nc, bucket, count)
		<-asked
		t.Logf("%s: %d messages in %.0f s, %s", bucket, count, time.Since(begun).Seconds(), g.held(t, bucket))
	}
	if now := g.keys(t, known); !slices.Equal(now, keys) {
		t.Errorf("plans had the keys %v, and have %v", keys, now)
	}
	begun := time.Now()
	next := fleet.Launch(t, "gate", filepath.Join(g.programs, "switchyard"), "gate", "--nats", "gate")
	next.Await(t, "ready")
	t.Logf("a new gate was ready in %.1f s", time.Since(begun).Seconds())
	g.procs["gate"].Drain(t)
	g.procs["gate"] = next
	g.complete(t, nc, "after", 64)
	g.checkLogs()
}

// known is the bucket that stores the keys alone that are known.
const known = "plans"

// floods is more than a bucket holds of acknowledgements, and inStep how many are on their
// way at a time.
const (
	floods = 1_200_000
	inStep = 5_000
)

// flood has the server acknowledge one prompt at many keys.
func (g *guarded) flood(t *testing.T, nc *nats.Conn, bucket string, count int) {
	t.Helper()
	m := nats.NewMsg("switchyard.prompt.demo")
	m.Header.Set(nats.MsgIdHdr, "flood-"+bucket)
	m.Data = []byte(`{"text": "Once", "max_tokens": 1}`)
	for i := range count {
		m.Reply = fmt.Sprintf("$KV.switchyard_%s_demo.x.%d", bucket, i)
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if i%inStep == 0 { // what comes after is stored after
			again := *m
			again.Reply = ""
			if _, err := nc.RequestMsg(&again, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// keys are those of a bucket.
func (g *guarded) keys(t *testing.T, bucket string) []string {
	t.Helper()
	kv, err := g.js.KeyValue(t.Context(), "switchyard_"+bucket+"_demo")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// held says how full a bucket is.
func (g *guarded) held(t *testing.T, bucket string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := g.js.Stream(ctx, "KV_switchyard_"+bucket+"_demo")
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	if bucket == known && state.Msgs > 100 {
		t.Errorf("%s has %d keys", bucket, state.Msgs)
	}
	return fmt.Sprintf("%d keys, %d of %d bytes", state.Msgs, state.Bytes, s.CachedInfo().Config.MaxBytes)
}
