package replay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// mix has texts of two domains.
func mix() *replay.Mix {
	m := &replay.Mix{Longest: 24, Seed: 7, Texts: make([][]uint32, 2)}
	for d := range m.Texts {
		for i := range 200 {
			m.Texts[d] = append(m.Texts[d], uint32(1+(7*i+3*d)%60))
		}
	}
	return m
}

// run answers requests on so many hosts.
func run(t *testing.T, hosts int, requests []replay.Request) *replay.Result {
	t.Helper()
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := clustertest.Settings(t.Context(), m, tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	s.Count["expert"] = hosts
	r, err := replay.Run(t.Context(), replay.Settings{
		Cluster: s, Requests: requests, Every: 20 * time.Millisecond, Views: 50 * time.Millisecond, Progress: func(string, ...any) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Failed(); err != nil {
		t.Fatal(err)
	}
	return r
}

// Steps are known whole, the simulator can run the same, and tokens are those of
// another number of hosts.
func TestRun(t *testing.T) {
	// Hosts tell their meters once a second: the requests take longer than that to come.
	requests, err := mix().Phases([]int{0, 1}, 800*time.Millisecond, 0, 80*time.Millisecond, 12, 8)
	if err != nil {
		t.Fatal(err)
	}
	r, other := run(t, 2, requests), run(t, 1, requests)
	for i, a := range r.Answers {
		if len(a.Tokens) != 8 || len(a.Times) == 0 || !slices.Equal(a.Tokens, other.Answers[i].Tokens) {
			t.Errorf("request %d: %v, on one host %v", i, a.Tokens, other.Answers[i].Tokens)
		}
	}
	// Of the last steps, gates may not have told.
	if most := 20 * (12 + 7); len(r.Steps) == 0 || r.Partial > 10 || r.Tokens() > most || r.Tokens() < most/2 {
		t.Errorf("%d steps of %d rows, want up to %d; %d in part", len(r.Steps), r.Tokens(), most, r.Partial)
	}
	w, err := r.Workload()
	if err != nil || w.Tokens() != r.Tokens() {
		t.Errorf("the simulator has %d rows of %d, %v", w.Tokens(), r.Tokens(), err)
	}
	times := r.Times()
	if len(times) == 0 || times[0] <= 0 || !slices.IsSorted(times) {
		t.Errorf("%d layers' times", len(times))
	}
	last := r.Frames[len(r.Frames)-1]
	if len(last.Warm) != r.Shape.Layers*r.Shape.Experts || slices.Min(last.Warm) < 1 || r.Replicas() != float64(r.Shape.Experts) {
		t.Errorf("warm replicas %v, %v a layer in the mean", last.Warm, r.Replicas())
	}
	if c := r.Cost(1e9); c.Layers <= 0 || c.Resident <= 0 {
		t.Errorf("cost %+v", c)
	}
	if len(r.Views) == 0 || !strings.Contains(r.Views[0].Text, "SERVICE") {
		t.Errorf("%d views", len(r.Views))
	}
}

// A run ends with its context.
func TestStopped(t *testing.T) {
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := clustertest.Settings(t.Context(), m, tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	progress := func(format string, _ ...any) {
		if strings.HasPrefix(format, "request") {
			stop()
		}
	}
	later := []replay.Request{{IDs: []uint32{1}, Tokens: 1}, {At: time.Hour, IDs: []uint32{1}, Tokens: 1}}
	if _, err := replay.Run(ctx, replay.Settings{Cluster: s, Requests: later, Every: time.Second, Progress: progress}); err == nil {
		t.Error("it ran to its end")
	}
}

func TestReplay(t *testing.T) {
	var rs []trace.Request
	for i := range 100 {
		rs = append(rs, trace.Request{At: time.Duration(i) * time.Second, Context: 40, Generated: 400})
	}
	m := mix()
	qs, err := m.Replay(rs, replay.Scale{Every: 2, Shrink: 4, Speed: 10})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := m.Replay(rs, replay.Scale{Every: 2, Shrink: 4, Speed: 10}); err != nil || len(again) != len(qs) || again[9].Seed != qs[9].Seed || !slices.Equal(again[9].IDs, qs[9].IDs) {
		t.Errorf("again %d requests, %v", len(again), err)
	}
	if len(qs) != 50 || qs[1].At != 200*time.Millisecond || len(qs[0].IDs)+qs[0].Tokens > m.Longest || qs[0].Domain != 0 || qs[49].Domain != 1 {
		t.Errorf("%d requests, the first %+v", len(qs), qs[0])
	}
}

func TestRefused(t *testing.T) {
	one := []trace.Request{{}}
	for _, tc := range []struct {
		name string
		mix  *replay.Mix
		rs   []trace.Request
		s    replay.Scale
		want string
	}{
		{"no texts", &replay.Mix{Longest: 9}, one, replay.Scale{Every: 1, Shrink: 1, Speed: 1}, "0 domains"},
		{"short text", &replay.Mix{Longest: 9, Texts: [][]uint32{{1}}}, one, replay.Scale{Every: 1, Shrink: 1, Speed: 1}, "domain 0 has 1 tokens"},
		{"no requests", mix(), nil, replay.Scale{Every: 1, Shrink: 1, Speed: 1}, "no requests"},
		{"no speed", mix(), one, replay.Scale{Every: 1, Shrink: 1}, "the scale is"},
	} {
		if _, err := tc.mix.Replay(tc.rs, tc.s); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := mix().Phases([]int{2}, time.Second, 0, time.Millisecond, 1, 1); err == nil {
		t.Error("a domain that is not there")
	}
	if _, err := mix().Phases([]int{0}, time.Second, 0, 0, 1, 1); err == nil {
		t.Error("requests without an interval")
	}
}
