package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
		count := g.fill(t, nc, bucket)
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

const (
	// floods are sent until a bucket is full, this often at most: a million acknowledgements
	// fill it, and the server drops some of those that come faster than it stores.
	floods, mostFloods = 400_000, 10
	// inStep is how many are on their way at a time.
	inStep = 5_000
	// full is the share of its bound that a full bucket has at least.
	full = 0.95
)

// fill floods a bucket until it is full; the known one, of whose floods none are to be
// stored, once. It returns how much it has sent.
func (g *guarded) fill(t *testing.T, nc *nats.Conn, bucket string) (sent int) {
	t.Helper()
	for range mostFloods {
		g.flood(t, nc, bucket, sent, floods)
		sent += floods
		if bucket == known || g.share(t, bucket) >= full {
			return sent
		}
	}
	t.Errorf("%s is not full after %d messages: nothing is known of a full one", bucket, sent)
	return sent
}

// flood has the server acknowledge one prompt at many keys, from a number on.
func (g *guarded) flood(t *testing.T, nc *nats.Conn, bucket string, from, count int) {
	t.Helper()
	m := nats.NewMsg("switchyard.prompt.demo")
	m.Header.Set(nats.MsgIdHdr, "flood-"+bucket)
	m.Data = []byte(`{"text": "Once", "max_tokens": 1}`)
	for i := range count {
		m.Reply = fmt.Sprintf("$KV.switchyard_%s_demo.x.%d", bucket, from+i)
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

// share is how much of its bound a bucket has.
func (g *guarded) share(t *testing.T, bucket string) float64 {
	t.Helper()
	info := g.bucket(t, bucket)
	return float64(info.State.Bytes) / float64(info.Config.MaxBytes)
}

// held says how full a bucket is.
func (g *guarded) held(t *testing.T, bucket string) string {
	t.Helper()
	info := g.bucket(t, bucket)
	if bucket == known && info.State.Msgs > 100 {
		t.Errorf("%s has %d keys", bucket, info.State.Msgs)
	}
	return fmt.Sprintf("%d keys, %d of %d bytes", info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
}

func (g *guarded) bucket(t *testing.T, bucket string) *jetstream.StreamInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := g.js.Stream(ctx, "KV_switchyard_"+bucket+"_demo")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo()
}
