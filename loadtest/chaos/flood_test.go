package chaos

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// TestFlood has the server acknowledge one prompt, which a producer sends again and again, at keys
// of every bucket, token logs, the queue of sequences and dead letters: nothing of it is
// stored, answers are whole meanwhile, and a gate that comes afterwards finds all that it needs.
func TestFlood(t *testing.T) {
	wantedMinutes(t)
	g := newGuarded(t)
	nc := g.producer(producer)
	g.complete(t, nc, "before", 8)
	keys := g.keys(t, "plans")
	for name, subject := range flooded {
		begun := time.Now()
		beside, asked := g.producer(producer), make(chan struct{})
		go func() {
			defer close(asked)
			g.complete(t, beside, "beside-"+name, 200)
		}()
		g.flood(t, nc, name, subject)
		<-asked
		t.Logf("%s: %d acknowledgements in %.0f s", name, floods, time.Since(begun).Seconds())
		g.wantNoGarbage(t, fmt.Sprintf(subject, 0))
		g.wantNoGarbage(t, fmt.Sprintf(subject, floods-1))
	}
	if now := g.keys(t, "plans"); !slices.Equal(now, keys) {
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

// flooded are subjects at which something is stored.
var flooded = map[string]string{
	"plans": "$KV.switchyard_plans_demo.x.%d", "functions": "$KV.switchyard_functions_demo.x.%d",
	"leases": "$KV.switchyard_leases_demo.x.%d", "members": "$KV.switchyard_members_demo.x.%d",
	"logs": "switchyard.token.demo.0.flood-%d", "letters": "switchyard.dlq.demo.prompt.x%d", "prompts": "switchyard.prompt.demo.acme.x%d",
}

const (
	// floods are sent to each.
	floods = 200_000
	// inStep is how many are on their way at a time.
	inStep = 5_000
)

// flood has the server acknowledge one prompt at many subjects.
func (g *guarded) flood(t *testing.T, nc *nats.Conn, name, subject string) {
	t.Helper()
	m := nats.NewMsg("switchyard.prompt.demo")
	m.Header.Set(nats.MsgIdHdr, "flood-"+name)
	m.Data = []byte(`{"text": "Once", "max_tokens": 1}`)
	for i := range floods {
		m.Reply = fmt.Sprintf(subject, i)
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
