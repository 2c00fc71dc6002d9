package scatter

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// tiny has a row of 1 s on 1 GB, a way through the store of 2 s and 1 s a row, and one of half a
// second a row in messages.
func tiny() *System {
	return &System{
		Model: Model{Layers: 1, Experts: 3, TopK: 1, Expert: 1000, Intermediate: 24, In: 100, Out: 100, Next: 500},
		Functions: cost.Platform{
			Sizes: []float64{1500, cost.GB, 2 * cost.GB}, PerCPU: cost.GB, CPU: cost.Roofline{Bandwidth: 1e12, Rate: 500, ElementBytes: 4},
			Parameters: cost.Link{Latency: 2, Bandwidth: 100}, Fixed: 0.5, Random: 0.5, Payload: 350, Direct: 200, Replicas: 4,
			Prices: cost.Prices{Memory: 3, Requests: 7, Puts: 11, Gets: 13},
		},
		Head: 1, Tail: 2, Between: 4,
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// Equations 3 to 5 and the latencies, told by hand: h = 1 + 2 + 10 s.
func TestEquations(t *testing.T) {
	s := tiny()
	const h, row = 13, 1
	loads := []float64{5, 0, 3}
	plan := func(m Mode, beta int) *Plan {
		return &Plan{Layers: []Layer{{m, beta, []Function{{cost.GB, 2}, {1500, 1}, {2 * cost.GB, 1}}}}}
	}
	for _, tc := range []struct {
		mode                Mode
		beta                int
		first, last         float64 // of the two experts: 3 rows on 1 GB, and 3 on 2 GB
		latency             float64
		calls, puts, gets   int
		requests, transfers float64
	}{
		// n = 2: blocks of 2 + 2·(1 + 1) and 2 + 2·(1 + 1/2), the last upload 2 + 2; u = 2 + 2·2
		{Pipelined, 2, h + 2*(2+2*(1+row)) + 4, h + 2*(2+2*(1+row/2.)) + 4, max(13+2*6+4, 8) + 2 + 8, 3, 12, 15, 3*7 + 12*11 + 15*13, 2*(16-3) + 14 - 1.5},
		// u = 2 + 8
		{Indirect, 0, h + 4 + 3*(1+row+1), h + 4 + 3*(1+row/2.+1), max(13+4+9, 8) + 2 + 8, 3, 6, 9, 3*7 + 6*11 + 9*13, 2*10 + 10},
		{Direct, 0, h + 3*(row+0.5), h + 3*(row/2.+0.5), 1.5 + h + 4.5 + 8, 3, 0, 3, 3*7 + 3*13, 3 * 1.5},
	} {
		p := plan(tc.mode, tc.beta)
		b := s.Serve(p, [][]float64{loads})
		gbs := 2*tc.first + 2*tc.last
		for what, c := range map[string][2]float64{
			"t of expert 0": {s.Replica(tc.mode, tc.beta, 3, cost.GB), tc.first}, "cost": {b.Cost, 3 * gbs}, "GB·s": {b.GBs, gbs * cost.GB / 1e9}, "latency": {b.Layers[0], tc.latency},
			"seconds": {b.Seconds, 7 + tc.latency}, "requests": {b.Requests, tc.requests}, "all": {b.Dollars(), 3*gbs + tc.requests}, "transfers": {b.Transfers, tc.transfers},
		} {
			if !near(c[0], c[1]) {
				t.Errorf("%s: %s is %v, want %v", tc.mode, what, c[0], c[1])
			}
		}
		if b.Calls != tc.calls || b.Puts != tc.puts || b.Gets != tc.gets || b.Short+b.Large != 0 {
			t.Errorf("%s: %+v", tc.mode, b)
		}
		if broken := s.Limits(p, [][]float64{loads}, b.Seconds); len(broken) != 0 {
			t.Errorf("%s: %v", tc.mode, broken)
		}
	}
	s.Kept = true
	if s.Begin() != 1 || s.Load() != 1 {
		t.Errorf("kept parameters take %v s and %v s", s.Begin(), s.Load())
	}
}

// A call reads its expert's parameters, however few rows it has: here for 10 s of one processor, as ten rows compute.
func TestFewRows(t *testing.T) {
	s := tiny()
	s.Functions.CPU.Bandwidth = 100
	const h = 13
	for _, tc := range []struct {
		mode       Mode
		beta, rows int
		want       float64
	}{
		{Direct, 0, 3, h + 10 + 1.5}, {Direct, 0, 20, h + 20 + 10}, {Indirect, 0, 3, h + 4 + 6 + 10},
		{Pipelined, 2, 4, h + 2*(2+2+10) + 4}, {Pipelined, 20, 20, h + 2 + 20 + 20 + 2 + 20},
	} {
		if got := s.Replica(tc.mode, tc.beta, tc.rows, cost.GB); !near(got, tc.want) {
			t.Errorf("%s, %d rows: %v, want %v", tc.mode, tc.rows, got, tc.want)
		}
	}
}

// With one minibatch pipelining is what no pipelining is, where uploads are quicker than the rest;
// and Least is no more than any size of minibatches.
func TestModes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tiny()
		s.In, s.Out = rapid.Float64Range(1, 1e4).Draw(t, "in"), rapid.Float64Range(1, 1e4).Draw(t, "out")
		s.Functions.Parameters.Latency = rapid.Float64Range(0, 5).Draw(t, "delay")
		s.Functions.CPU.Bandwidth, s.Functions.CPU.Overhead = rapid.Float64Range(10, 1e6).Draw(t, "bandwidth"), rapid.Float64Range(0, 3).Draw(t, "overhead")
		s.Functions.Threads = rapid.SampledFrom([]float64{0, 0.5, 1, 4}).Draw(t, "threads")
		r, m := rapid.IntRange(1, 300).Draw(t, "rows"), rapid.SampledFrom(s.Functions.Sizes[1:]).Draw(t, "memory")
		one, whole := s.Replica(Pipelined, r, r, m), s.Replica(Indirect, 0, r, m)
		if s.Store(s.Out) <= s.Store(s.In)+s.Row(m) && !near(one, whole) {
			t.Fatalf("%v s and %v s", one, whole)
		}
		beta := rapid.IntRange(1, 400).Draw(t, "beta")
		if took := s.Replica(Pipelined, beta, r, m); s.Least(r, m) > took*(1+1e-12) {
			t.Fatalf("%v s, and the least is %v", took, s.Least(r, m))
		}
	})
}

// Functions with too many rows have the replicas that these need: section IV-B.
func TestMend(t *testing.T) {
	s := tiny()
	small := slices.Repeat([]Function{{1500, 1}}, 3) // of two rows: 1500 - 1024 is 2.4·200
	b := s.Serve(&Plan{Layers: []Layer{{Indirect, 0, small}}}, [][]float64{{5, 2, 0}})
	if b.Short != 1 || b.Large != 0 || b.Calls != 4 {
		t.Errorf("%+v", b)
	}
	large := slices.Repeat([]Function{{cost.GB, 2}}, 3) // 350 bytes take three rows
	b = s.Serve(&Plan{Layers: []Layer{{Direct, 0, large}}}, [][]float64{{10, 6, 0}})
	if b.Short != 0 || b.Large != 1 || b.Calls != 6 || s.Room(10) != 0 {
		t.Errorf("%+v", b)
	}
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		want, words string
		spoil       func(*System, *Plan, []float64)
	}{
		{"6c", "a replica with 3 rows takes 1624 bytes, and has 1500", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Experts[2].Memory = 1500 }},
		{"6d", "s, and 100000000.000 are allowed", func(s *System, _ *Plan, _ []float64) { s.Head = 1e9 }},
		{"6e", "minibatches have 9 rows, and no replica has more than 3", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Beta = 9 }},
		{"6f", "a replica's 4 rows are 400 bytes", func(_ *System, p *Plan, d []float64) { p.Layers[0].Mode, d[2] = Direct, 4 }},
		{"6f", "the answers are 800 bytes", func(s *System, p *Plan, _ []float64) { p.Layers[0].Mode, s.Gathers = Direct, true }},
		{"6g", "the plan has 0 layers", func(_ *System, p *Plan, _ []float64) { p.Layers = nil }},
		{"6g", "none transfers", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Mode = None }},
		{"6g", "mode 9 transfers", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Mode = 9 }},
		{"6g", "7 bytes and 1 replicas", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Experts[1].Memory = 7 }},
		{"6g", "and 5 replicas", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Experts[1].Replicas = 5 }},
		{"6j", "minibatches have 0 rows", func(_ *System, p *Plan, _ []float64) { p.Layers[0].Beta = 0 }},
	} {
		s, loads := tiny(), []float64{5, 0, 3}
		p := &Plan{Layers: []Layer{{Pipelined, 2, []Function{{cost.GB, 2}, {1500, 1}, {2 * cost.GB, 1}}}}}
		tc.spoil(s, p, loads)
		got := s.Limits(p, [][]float64{loads}, 1e8)
		if len(got) != 1 || got[0].Name != tc.want || !strings.Contains(got[0].String(), tc.words) || got[0].Shape() != (tc.want == "6g" || tc.want == "6j") {
			t.Errorf("%s: %v, want %q", tc.want, got, tc.words)
		}
	}
}

func TestSystemRefused(t *testing.T) {
	if err := tiny().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*System){
		"0 layers":                          func(s *System) { s.Layers = 0 },
		"4 of 3 experts":                    func(s *System) { s.TopK = 4 },
		"functions have 0 replicas at most": func(s *System) { s.Functions.Replicas = 0 },
		"an expert's bytes are NaN":         func(s *System) { s.Expert = math.NaN() },
		"a row's bytes back are 0":          func(s *System) { s.Out = 0 },
		"a layer's other seconds are -1":    func(s *System) { s.Between = -1 },
		"the largest function has":          func(s *System) { s.Expert = 3 * cost.GB },
		"sizes are missing":                 func(s *System) { s.Functions.Sizes = nil },
		"memory costs nothing":              func(s *System) { s.Functions.Memory = 0 },
	} {
		s := tiny()
		spoil(s)
		if err := s.Check(); !errors.Is(err, ErrSystem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, loads := range map[string][][]float64{
		"rows of 0 layers":  nil,
		"rows of 2 experts": {{1, 2}},
		"has NaN rows":      {{1, math.NaN(), 2}},
		"has -1 rows":       {{1, 2, -1}},
		"has +Inf rows":     {{1, 2, math.Inf(1)}},
	} {
		if err := tiny().CheckLoads(loads); !errors.Is(err, ErrSystem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
