package requests

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// tiny is a device that computes a row in 2 ms, takes it there and back in 1 ms each, and
// loads an expert of 1 GB in a second, a quarter of one after it is wanted.
func tiny(layers, experts int) sim.Model {
	n := func(v float64) profiles.Number { return profiles.Number{Value: v} }
	return sim.Model{Name: "tiny", Shape: routing.Shape{Layers: layers, Experts: experts, TopK: 1}, Profile: &profiles.Profile{
		Time: profiles.Printed, Alpha: n(2e-3), Beta: n(1e-3), ExpertBytes: n(1e9), MemoryBytes: n(float64(layers) * 4e9), Bandwidth: n(1e9), ColdStart: n(0.25),
	}}
}

func cluster(m sim.Model, hosts int) sim.Settings {
	return sim.Settings{Model: m, Hosts: hosts, CV: 0.2, Distance: 1, Accuracy: []float64{1}, KeepAlive: 60}
}

var replay = sim.Replay{PerSecond: 1, Domains: 2, Cycle: time.Hour, Seed: 1}

func tape(t testing.TB, s routing.Shape, p routing.Params) *Tape {
	g, err := routing.New(s, p, replay.Domains, replay.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return NewTape(g, replay)
}

func named(name string) sim.Policy {
	ps := sim.Policies()
	return ps[slices.IndexFunc(ps, func(p sim.Policy) bool { return p.Name == name })]
}

func run(t testing.TB, rs []trace.Request, set Settings, s sim.Settings, p sim.Policy) *Result {
	r, err := Run(rs, nil, tape(t, s.Model.Shape, routing.Demo()), set, s, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// few takes four rows a batch.
func few(s routing.Shape) Settings {
	set := Defaults(s)
	set.Batching.MaxRows, set.Batching.MaxSeconds = 4, 0
	return set
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }

// One layer of one expert on one host: a batch of n rows takes n·(2 + 2·1) ms. A prompt of 10
// tokens is three batches, 16, 16 and 8 ms, so that the first token is there after 40 ms; three
// further ones take 4 ms each. A second request at 1 s has one token and none to follow.
func TestByHand(t *testing.T) {
	m := tiny(1, 1)
	rs := []trace.Request{{At: 0, Context: 10, Generated: 4}, {At: time.Second, Context: 2, Generated: 1}}
	set := few(m.Shape)
	set.SLO = SLO{TTFT: 30 * time.Millisecond, TPOT: 5 * time.Millisecond}
	r := run(t, rs, set, cluster(m, 1), named("static"))
	for _, of := range []struct {
		name      string
		got, want float64
	}{
		{"TTFT", r.TTFT.Mean, (0.040 + 0.008) / 2}, {"its p99", r.TTFT.P99, 0.040}, {"TPOT", r.TPOT.Mean, 0.004}, {"elapsed", r.Elapsed, 1.008},
		{"good", r.Good, 0.5}, {"of a strict SLO", r.Strict, 0.5}, {"of a lax one", r.Lax, 1}, {"goodput", r.Goodput, 1 / 1.008},
		{"prefill", r.Prefill, 0.012}, {"decode", r.Decode, 0.004}, {"average", r.Average, 1}, {"peak", r.Peak, 1}, {"rows", float64(r.Rows), 15},
		{"unfinished", float64(r.Unfinished), 0}, {"behind", r.Behind, 0},
	} {
		if !near(of.got, of.want) {
			t.Errorf("%s: %v, want %v", of.name, of.got, of.want)
		}
	}
}

// Two requests share batches: the first one's answer goes on while the second's prompt is
// computed, in what its row leaves of four.
//
//	0 ms: 4 of a's prompt, 16 ms. 16: 3 of b's, and a's row, 16 ms. 32: 1 of b's and a's
//	row, 8 ms. 40: a's last token's row and b's, 8 ms.
func TestShared(t *testing.T) {
	m := tiny(1, 1)
	r := run(t, []trace.Request{{At: 0, Context: 4, Generated: 4}, {At: time.Millisecond, Context: 4, Generated: 2}}, few(m.Shape), cluster(m, 1), named("static"))
	if !near(r.TTFT.P50, 0.039) || !near(r.TTFT.Mean, (0.016+0.039)/2) || !near(r.TPOT.Mean, (0.032/3+0.008)/2) || !near(r.Elapsed, 0.048) {
		t.Errorf("%+v", r)
	}
}

// More requests than seats wait: with one seat one after the other.
func TestSeats(t *testing.T) {
	m := tiny(1, 1)
	set := few(m.Shape)
	set.MaxSequences = 1
	rs := []trace.Request{{Context: 1, Generated: 2}, {Context: 1, Generated: 2}, {Context: 1, Generated: 1}}
	r := run(t, rs, set, cluster(m, 1), named("static"))
	if !near(r.TTFT.P50, 0.012) || !near(r.TTFT.P99, 0.020) || !near(r.Elapsed, 0.020) {
		t.Errorf("%+v", r)
	}
}

// A cluster that cannot follow is given up on: what has not ended is told, and its waiting
// counts as far as it went.
func TestBehind(t *testing.T) {
	m := tiny(1, 1)
	set := few(m.Shape)
	set.Drain = 0
	var rs []trace.Request
	for i := range 11 {
		rs = append(rs, trace.Request{At: time.Duration(i) * 10 * time.Millisecond, Context: 10, Generated: 1}) // 40 ms each
	}
	r := run(t, rs, set, cluster(m, 1), named("static"))
	if r.Unfinished != 10 || r.Behind < 0.09 || r.Behind > 0.11 || !near(r.TTFT.P99, r.Behind) || !near(r.Good, 1.0/11) {
		t.Errorf("%d unfinished, %v s behind, TTFT %v", r.Unfinished, r.Behind, r.TTFT)
	}
}

// Arrivals pause; with a keep-alive that is shorter, what is held goes.
func TestIdle(t *testing.T) {
	m := tiny(1, 2)
	set, s := few(m.Shape), cluster(m, 2)
	set.Idle, s.KeepAlive = Idle{Every: 10 * time.Second, For: 8 * time.Second}, 1
	var rs []trace.Request
	for i := range 200 {
		rs = append(rs, trace.Request{At: time.Duration(i) * 100 * time.Millisecond, Context: 4, Generated: 2})
	}
	static, lean := run(t, rs, set, s, named("static")), run(t, rs, set, s, named("moeless+"))
	if static.Requests != 200 || static.Elapsed < 90 || static.Elapsed > 95 || static.Unfinished+lean.Unfinished > 0 || lean.Average > 0.7*static.Average {
		t.Errorf("%d requests, %v GB of %v", static.Requests, lean.Average, static.Average)
	}
}

// At a multiple of the rate the same requests come in less time.
func TestRate(t *testing.T) {
	m := tiny(2, 2)
	rs := []trace.Request{{Context: 3, Generated: 2}, {At: 10 * time.Second, Context: 3, Generated: 2}}
	set := few(m.Shape)
	set.Rate = 4
	if r := run(t, rs, set, cluster(m, 2), named("static")); r.Elapsed < 2.5 || r.Elapsed > 2.6 {
		t.Errorf("%v s", r.Elapsed)
	}
}

// Rows wait for a host that goes, and are computed elsewhere.
func TestHostGone(t *testing.T) {
	m := tiny(2, 4)
	s := cluster(m, 2)
	s.Failures, s.Notice = []sim.Failure{{Host: 1, At: 0.1}}, 0.5
	rs := []trace.Request{{Context: 40, Generated: 20}}
	for _, p := range sim.Policies() {
		with, without := run(t, rs, few(m.Shape), s, p), run(t, rs, few(m.Shape), cluster(m, 2), p)
		if with.Unfinished > 0 || with.Rows != without.Rows || with.Elapsed < without.Elapsed+0.5 || p.Decide == nil && with.ColdStarts != 4 {
			t.Errorf("%s: %+v, without the failure %+v", p.Name, with, without)
		}
	}
}

// watched checks what a source gives.
type watched struct {
	*source
	t    *rapid.T
	seen map[string]int // rows by layer and expert
}

func (w *watched) Next(now float64) (sim.Iteration, bool) {
	it, ok := w.source.Next(now)
	if !ok {
		return it, ok
	}
	if it.Rows < 1 || it.Rows > w.Batching.MaxRows || len(w.order) > w.MaxSequences || it.Due < now {
		w.t.Fatalf("%d rows of %d, %d sequences of %d, at %v due %v", it.Rows, w.Batching.MaxRows, len(w.order), w.MaxSequences, now, it.Due)
	}
	for l := range w.tape.Layers {
		n := 0
		for x, rows := range w.Loads(l) {
			w.seen[fmt.Sprint(l, x)] += int(rows)
			n += int(rows)
		}
		if n != it.Rows*w.tape.TopK {
			w.t.Fatalf("layer %d has %d choices of %d rows", l, n, it.Rows)
		}
	}
	return it, ok
}

// Whatever the requests and the policy: each token's row is computed once, by the experts
// that it has under every other policy; batches keep their bounds; the same seed gives the
// same result.
func TestProperties(t *testing.T) {
	m := tiny(2, 4)
	of := tape(t, m.Shape, routing.Demo())
	rapid.Check(t, func(t *rapid.T) {
		set, rs := few(m.Shape), drawRequests(t)
		set.Batching.MaxRows, set.MaxSequences = rapid.IntRange(1, 9).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "seats")
		set.Drain = time.Hour
		rows := 0
		for _, q := range rs {
			rows += q.Context + max(0, q.Generated-1)
		}
		var first map[string]int
		for _, p := range sim.Policies() {
			w := &watched{source: newSource(set, of, rs, nil), t: t, seen: map[string]int{}}
			r, err := sim.Feed(w, cluster(m, 2), p)
			if err != nil {
				t.Fatal(err)
			}
			if res := w.result(r); r.Rows != rows*m.TopK*m.Layers || r.Tokens != rows || res.Unfinished > 0 || res.TTFT.Mean <= 0 || res.Peak < res.Average-1e-9 {
				t.Fatalf("%s: %+v, %d rows", p.Name, res, rows)
			}
			if first == nil {
				first = w.seen
			}
			if !reflect.DeepEqual(first, w.seen) {
				t.Fatalf("%s: %v, static %v", p.Name, w.seen, first)
			}
			a, errA := Run(rs, rs, of, set, cluster(m, 2), p)
			b, errB := Run(rs, rs, of, set, cluster(m, 2), p)
			if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: %+v, then %+v", p.Name, a, b)
			}
		}
	})
}

func drawRequests(t *rapid.T) (rs []trace.Request) {
	at := time.Duration(0)
	for range rapid.IntRange(1, 8).Draw(t, "requests") {
		at += time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Millisecond
		rs = append(rs, trace.Request{At: at, Context: rapid.IntRange(1, 30).Draw(t, "prompt"), Generated: rapid.IntRange(0, 9).Draw(t, "answer")})
	}
	return rs
}

// What a tape has of an expert is what the generator would give it, however far a request
// reads; even routing stays even.
func TestTape(t *testing.T) {
	s := routing.Shape{Layers: 3, Experts: 8, TopK: 2}
	of := tape(t, s, routing.Even())
	loads := make([]uint32, s.Layers*s.Experts)
	of.add(loads, of.of(3, trace.Request{}), 5, 4*textRows)
	for _, n := range loads {
		if int(n) != 4*textRows*s.TopK/s.Experts {
			t.Fatalf("even routing has %v", loads)
		}
	}
	if got := of.Known([]trace.Request{{Context: 64, Generated: 0}}); !near(got[0], 64*2/8) {
		t.Errorf("known %v of 16", got[0])
	}
}

// A layer may have as many experts as the largest models, and all of a row's are different.
func TestManyExperts(t *testing.T) {
	s := routing.Shape{Layers: 2, Experts: 1024, TopK: 8}
	of := tape(t, s, routing.Demo())
	loads := make([]uint32, s.Layers*s.Experts)
	of.add(loads, of.of(0, trace.Request{}), 0, 1)
	chosen, beyond := 0, 0
	for _, n := range loads {
		if n == 1 {
			chosen++
		}
	}
	of.add(loads, of.of(0, trace.Request{}), 0, textRows)
	for x, n := range loads {
		if x%s.Experts > 255 && n > 0 {
			beyond++
		}
	}
	if chosen != s.Layers*s.TopK || beyond < 100 {
		t.Errorf("%d choices of %d, %d experts beyond 255 have rows", chosen, s.Layers*s.TopK, beyond)
	}
}

func TestRefused(t *testing.T) {
	m := tiny(1, 2)
	rs := []trace.Request{{Context: 1, Generated: 1}}
	for _, tc := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"rows", func(s *Settings) { s.Batching.MaxRows = 0 }, "0 rows at most; it must be 1 to 65536"},
		{"seconds", func(s *Settings) { s.Batching.MaxSeconds = math.NaN() }, "may take NaN s"},
		{"seats", func(s *Settings) { s.MaxSequences = 0 }, "0 sequences run at most"},
		{"rate", func(s *Settings) { s.Rate = math.Inf(1) }, "+Inf times as many"},
		{"drain", func(s *Settings) { s.Drain = -1 }, "goes on for -1ns"},
		{"SLO", func(s *Settings) { s.SLO.TPOT = 0 }, "both must be above 0"},
		{"pause", func(s *Settings) { s.Idle = Idle{Every: time.Minute, For: time.Minute} }, "arrivals pause for 1m0s of every 1m0s"},
		{"no pause", func(s *Settings) { s.Idle = Idle{Every: time.Minute} }, "arrivals pause for 0s"},
	} {
		set := few(m.Shape)
		tc.change(&set)
		if _, err := Run(rs, nil, tape(t, m.Shape, routing.Demo()), set, cluster(m, 1), named("static")); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := Run(nil, nil, tape(t, m.Shape, routing.Demo()), few(m.Shape), cluster(m, 1), named("static")); err == nil || !strings.Contains(err.Error(), "no request arrives") {
		t.Errorf("no requests: %v", err)
	}
	if _, err := Run(rs, nil, tape(t, tiny(1, 3).Shape, routing.Demo()), few(m.Shape), cluster(m, 1), named("static")); err == nil || !strings.Contains(err.Error(), "another shape") {
		t.Errorf("shape: %v", err)
	}
}
