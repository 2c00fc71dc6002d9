package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/top"
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
	all := []*pb.Member{
		{Id: "e1", Service: "expert", Ready: true, ModelHash: 7, Stats: map[string]float64{"rows_total": 45}},
		{Id: "e2", Service: "expert", Draining: true, ModelHash: 7, Stats: map[string]float64{"rows_total": 20}},
		{Id: "a1", Service: "attention", Ready: true, Stats: map[string]float64{
			"requests_active": 2, "requests_total": 7, "tokens_total": 99, "kv_pages": 256, "kv_pages_used": 64, "requests_failed_total": 2,
			"first_tokens_total": 4, "first_token_seconds_total": 0.1, "requests_finished_total": 4, "request_seconds_total": 6,
		}},
		{Id: "t1", Service: "tokenizer", Ready: true, Stats: map[string]float64{"refused_total": 3}},
	}
	write := func(ctx context.Context) {
		for _, m := range all {
			if body, err := proto.Marshal(m); err == nil {
				_, _ = bucket.Put(ctx, m.Id, body) // what is lost fails the test
			}
			m.UptimeSeconds += 0.4
			m.Pid, m.Host, m.Version = 4711, "here", "v1"
		}
	}
	write(t.Context())
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				write(ctx)
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// compute sends samples of two hosts' loads, and one that is refused between any
// two, all the time: top may begin to listen at any.
func compute(t *testing.T, f *fake) {
	t.Helper()
	send := func(host string, layer uint32, experts []uint32, rows ...uint64) {
		s := &pb.LoadSample{Version: schemas.Version, Model: 7, Host: host, Layer: layer, SpanMs: 1000, Expert: experts, Rows: rows, Total: rows}
		if body, err := proto.Marshal(s); err == nil {
			_ = f.nc.Publish("switchyard.load.demo", body) // what is lost fails the test
		}
	}
	done, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				send("e1", 0, []uint32{0, 2}, 12, 33)
				send("e2", 0, []uint32{99999999}, 1)
				send("e2", 10, []uint32{0}, 20)
				send("e2", 0, []uint32{99999999}, 1)
			}
		}
	}()
	t.Cleanup(func() { close(quit); <-done })
}

func TestTopTable(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	populate(t, f)
	compute(t, f)
	wants := map[string]string{
		"demo NOT":    "NOT SERVING: missing gate, aggregator",
		"gate: there": "there is no gate",
		"tokens/s 0":  "TTFT 25 ms since start running 2 waiting 0 errors 5 KV pages 64 of 256 (25%) answer 1.5 s requests 7 tokens 99 failed 2 refused 3",
		"e1 ready":    "e1 ready - 0 45 - - - -",
		"e2 draining": "e2 draining - 0 20 - - - -",
		"a1 ready":    "a1 ready 0 - - 2 - 2 64 of 256 (25%)",
		"EXPERT 3":    "EXPERT-10: 3",
		"Load of":     "no host of this model sent",
		"here 4":      "here 4 1 0 0 v1 tokenizer attention expert×2",
		"gate 0":      "gate 0 of 0 - - - - there is no gate",
	}
	ends := map[string]string{"0": "45 2: 33 0.45 ▃·█", "10": "20 0: 20 1.00 █"}
	lacks := ""
	defer func() { t.Log(lacks) }()
	testkit.Eventually(t, "the table shows all", func() bool { // a renewal may be late
		got := f.invoke("", "top", "--once", "--span", "20s")
		if strings.Contains(got.Out, "TOKENS_") || strings.Contains(got.Out, "other") {
			t.Errorf("shows more than its queues:\n%s", got.Out)
		}
		lacks = got.Err + lacking(got.Out, wants, ends)
		return got.Code == cli.ExitDone && lacks == ""
	})
}

// lacking says which lines a table lacks: by their first two words what they have, and by their first one
// how they end.
func lacking(table string, wants, ends map[string]string) string {
	fields := map[string]string{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) > 1 {
			fields[words[0]+" "+words[1]] = strings.Join(words, " ")
		}
	}
	for key, want := range wants {
		if !strings.Contains(fields[key], want) {
			return fmt.Sprintf("line %q is %q, want %q in\n%s", key, fields[key], want, table)
		}
	}
	for layer, want := range ends {
		if line := lineOf(table, layer); !strings.HasSuffix(line, want) {
			return fmt.Sprintf("layer %s is %q, want it to end with %q in\n%s", layer, line, want, table)
		}
	}
	return ""
}

// lineOf is the line that begins with a word, its spaces made one each.
func lineOf(text, first string) string {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == first {
			return strings.Join(words, " ")
		}
	}
	return ""
}

func TestTopJSON(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	populate(t, f)
	compute(t, f)
	testkit.Eventually(t, "JSON has all", func() bool { // a renewal may be late
		got := f.invoke("", "top", "--json", "--span", "20s")
		var s top.Snapshot
		if err := json.Unmarshal([]byte(got.Out), &s); err != nil || got.Code != 0 {
			return false
		}
		var stages []string
		for _, q := range s.Queues {
			stages = append(stages, q.Stage)
		}
		if want := "PROMPTS EXPERT-0 EXPERT-10"; strings.Join(stages, " ") != want {
			t.Errorf("queues are %v, want %s", stages, want)
		}
		if len(s.Members) != 4 || len(s.Layers) != 2 || len(s.Layers[0].Rows) != 3 {
			return false
		}
		one := s.Members[1]
		return s.Members[0].ID == "t1" && one.Host == "here" && one.PID == 4711 && one.Version == "v1" && one.UptimeSeconds > 0 && !s.Serving && len(s.Missing) == 2 &&
			s.Layers[0].Layer == 0 && s.Layers[0].Rows[2] == 33 && s.Layers[1].Layer == 10 && s.Seconds > 0 && s.RefusedSamples > 0
	})
}

func TestTopNobody(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	got := f.invoke("", "top")
	if got.Code != 1 || !strings.Contains(got.Err, `no replica has served model "demo"`) {
		t.Errorf("got %+v", got)
	}
}

// A host that never tells what it says to have computed does not keep a look
// waiting for longer than --span.
func TestTopSilentHost(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	populate(t, f)
	testkit.Eventually(t, "all members", func() bool { // a renewal may be late
		got := f.invoke("", "top", "--json", "--span", "50ms")
		var s top.Snapshot
		err := json.Unmarshal([]byte(got.Out), &s)
		if len(s.Layers) != 0 {
			t.Errorf("got %+v", got)
		}
		return err == nil && got.Code == 0 && len(s.Members) == 4
	})
}
