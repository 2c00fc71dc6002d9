package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// populate makes the streams and the live replicas of a model with two layers.
func populate(t *testing.T, f *fake) {
	t.Helper()
	f.stream(t, "switchyard_EXPERT-0_demo", "switchyard.expert.demo.0.*")
	f.stream(t, "switchyard_EXPERT-10_demo", "switchyard.expert.demo.10.*")
	f.stream(t, "switchyard_HIDDEN_other", "switchyard.hidden.other.*")
	f.stream(t, "switchyard_TOKENS_demo", "switchyard.token.demo.*.*")
	for range 3 {
		if _, err := f.js.Publish(t.Context(), "switchyard.expert.demo.10.f1", []byte("rows")); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := f.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "switchyard_members_demo"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*pb.Member{
		{Id: "e1", Service: "expert", Ready: true, PlanVersion: 4, Stats: map[string]float64{
			"expert_rows.0.0": 10, "expert_rows.0.2": 30, "expert_rows.10.0": 5, "expert_rows.0.99999999": 1, "expert_rows.x.1": 1,
		}},
		{Id: "e2", Service: "expert", Draining: true, Stats: map[string]float64{"expert_rows.0.0": 20}},
		{Id: "a1", Service: "attention", Ready: true, Stats: map[string]float64{"requests_active": 2, "requests_total": 7, "tokens_total": 99}},
	} {
		body, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bucket.Put(t.Context(), m.Id, body); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTopTable(t *testing.T) {
	f := startFake(t)
	populate(t, f)
	got := f.invoke("", "top", "--once")
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	fields := map[string]string{}
	for line := range strings.Lines(got.out) {
		words := strings.Fields(line)
		if len(words) > 1 {
			fields[words[0]+" "+words[1]] = strings.Join(words, " ")
		}
	}
	for key, want := range map[string]string{
		"model demo":   "requests active 2 total 7 tokens 99",
		"expert e1":    "expert e1 ready 4 0 0",
		"expert e2":    "expert e2 draining 0 0 0 20",
		"attention a1": "attention a1 ready 0 7 99 0",
		"EXPERT 3":     "EXPERT-10: 3",
		"0 60":         "0 60 0: 30 0.67 █·█",
		"10 5":         "10 5 0: 5 1.00 █",
	} {
		if !strings.Contains(fields[key], want) {
			t.Errorf("line %q is %q, want %q in\n%s", key, fields[key], want, got.out)
		}
	}
	if strings.Contains(got.out, "TOKENS_") || strings.Contains(got.out, "other") {
		t.Errorf("shows more than its queues:\n%s", got.out)
	}
}

func TestTopJSON(t *testing.T) {
	f := startFake(t)
	populate(t, f)
	got := f.invoke("", "top", "--json")
	var s snapshot
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.code != 0 {
		t.Fatalf("got %+v: %v", got, err)
	}
	if len(s.Members) != 3 || s.Members[0].ID != "a1" || len(s.Layers) != 2 || s.Layers[0].Rows[0] != 30 {
		t.Errorf("got %s", got.out)
	}
	var stages []string
	for _, q := range s.Queues {
		stages = append(stages, q.Stage)
	}
	if want := "PROMPTS EXPERT-0 EXPERT-10"; strings.Join(stages, " ") != want {
		t.Errorf("queues are %v, want %s", stages, want)
	}
}

func TestTopNobody(t *testing.T) {
	f := startFake(t)
	got := f.invoke("", "top")
	if got.code != 1 || !strings.Contains(got.err, `nobody has served model "demo"`) {
		t.Errorf("got %+v", got)
	}
}

func TestTopRates(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := &snapshot{Time: at, Layers: []layerLoads{{0, []float64{10, 50}}}}
	now := &snapshot{Time: at.Add(2 * time.Second), Layers: []layerLoads{{0, []float64{30, 20, 8}}}}
	got := now.Layers[0].rate(before, now.since(before))
	if got[0] != 10 || got[1] != 0 || got[2] != 4 {
		t.Errorf("got %v, want [10 0 4]", got)
	}
	if text := now.table(before); !strings.Contains(text, "ROWS/S") || !strings.Contains(text, "(no replica is alive)") {
		t.Errorf("got\n%s", text)
	}
}
