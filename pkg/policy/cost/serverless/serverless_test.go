package serverless

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// tiny is a system whose times are told without a pencil: an expert has 1 GB, which a function of
// 1 GB reads in 1 s, and one of 2 GB in half of it.
func tiny() *System {
	return &System{
		Model: Model{Layers: 1, Experts: 3, TopK: 2, Expert: cost.GB, Fixed: cost.GB, Token: 1 << 10, Cache: 1 << 10},
		Functions: cost.Platform{
			Sizes: []float64{1.5 * cost.GB, 3 * cost.GB, 6 * cost.GB}, PerCPU: cost.GB, CPU: cost.Roofline{Bandwidth: cost.GB, Rate: 1e15, ElementBytes: 2},
			Container: 5, Parameters: cost.Link{Bandwidth: cost.GB}, Fixed: 0.25, Payload: 4 << 10, Prices: cost.Prices{Memory: 1},
		},
		Main: []float64{cost.GB, 2 * cost.GB, 4 * cost.GB}, GPU: cost.Roofline{Bandwidth: 10 * cost.GB, Rate: 1e15, ElementBytes: 2}, GPUPrice: 3,
		Switch: cost.Link{Latency: 0.01}, Network: 1 << 20, Replicas: 2,
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// One layer with two of three experts remote, told by hand.
func TestEquations(t *testing.T) {
	s := tiny()
	p := &Plan{Main: 2 * cost.GB, Layers: []Layer{{Remote: []bool{true, true, false}, Memory: 3 * cost.GB, Replicas: 2}}}
	d := &Demand{Prompt: 4, Output: 3, Layers: []Rows{{
		Prefill: []float64{2, 3, 3}, Decode: []float64{2, 2, 2}, Tokens: [][]int{{0, 1}, {0, 2}, {1, 2}},
	}}}
	const (
		way    = 2 * (1 << 10) / float64(1<<20) // of a row
		first  = 1./3 + 2*way + 0.25            // a replica with expert 0
		second = 1./3 + 3*way + 0.25
		remote = 1./3 + way // a row in decode
	)
	b := s.Serve(p, d, 1)
	prefill := 0.1 + 0.02 + max(0.5, second)
	decode := 3*(0.1+0.02) + (2*remote + 0.25) + 2*max(0.5, remote+0.25)
	run := 2*remote + 0.25 + 2*(remote+0.25)
	gpu := (7*(2<<10) + float64(cost.GB)) / cost.GB
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"prefill (1)", b.Prefill, prefill}, {"decode (4)", b.Decode, decode}, {"TPOT", b.TPOT(), decode / 3},
		{"main (6)", b.Main, (prefill + decode) * (3*gpu + 2)}, {"functions (8, 9)", b.Remote, 3 * (first + second + run)},
		{"GPU memory (7)", s.GPUMemory(7), gpu * cost.GB}, {"function memory (10e)", s.FunctionMemory(&p.Layers[0], &d.Layers[0]), 2*cost.GB + 5<<10},
		{"main memory (10f)", s.MainMemory(p.Layers, 7), cost.GB + 7<<10}, {"TTFT", b.TTFT(), prefill + 8}, {"invocations", b.Calls, 5},
		{"starting", b.Starting, 2*3*(5+2) + 8*(3*gpu+2)},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	s.Printed = true // equations 5 and 9 have an invocation for each expert
	if got := s.Serve(p, d, 1); !near(got.Decode, decode+0.25) || !near(got.Remote, b.Remote+3*0.25) {
		t.Errorf("as printed: %+v", got)
	}
	draws := 0
	if got := s.ServeDrawn(p, d, 1, func() float64 { draws++; return 0.25 }); draws != 6 || !near(got.Decode, decode+0.25) {
		t.Errorf("%d draws, %+v", draws, got)
	}
}

func heavy(s *System, p *Plan, d *Demand) bool {
	prefill := s.Prefill(p.Main, &p.Layers[0], &d.Layers[0])
	return prefill.Heavy(p.Layers[0].Replicas)
}

// What a payload does not take is invoked again.
func TestPayload(t *testing.T) {
	s := tiny()
	p := &Plan{Main: 4 * cost.GB, Layers: []Layer{{Remote: []bool{true, true, true}, Memory: 6 * cost.GB, Replicas: 1}}}
	d := &Demand{Prompt: 4, Layers: []Rows{{Prefill: []float64{2, 2, 4}, Decode: make([]float64, 3)}}}
	if b := s.Serve(p, d, 0); b.Calls != 2 || b.Splits != 1 || b.TPOT() != 0 {
		t.Errorf("%+v", b)
	}
	if got := s.Limits(p, d, SLO{100, 100}, 0); len(got) != 1 || got[0].Name != "10g" || got[0].Needs != 8<<10 || !heavy(s, p, d) {
		t.Errorf("%v", got)
	}
	p.Layers[0].Replicas = 2
	if got := s.Limits(p, d, SLO{100, 100}, 0); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestLimits(t *testing.T) {
	const slow = 1000.
	for _, tc := range []struct {
		want  string
		spoil func(*Plan, *Demand, *SLO)
	}{
		{"10b", func(_ *Plan, _ *Demand, o *SLO) { o.TTFT = 1 }},
		{"10c", func(_ *Plan, _ *Demand, o *SLO) { o.TPOT = 0.1 }},
		{"10d", func(p *Plan, _ *Demand, _ *SLO) { p.Layers[0].Memory = cost.GB }},
		{"10d", func(p *Plan, _ *Demand, _ *SLO) { p.Main = 3 * cost.GB }},
		{"10e", func(p *Plan, _ *Demand, _ *SLO) { p.Layers[0].Memory = 1.5 * cost.GB }},
		{"10f", func(p *Plan, _ *Demand, _ *SLO) { p.Main = cost.GB }},
		{"10h", func(p *Plan, _ *Demand, _ *SLO) { p.Layers = nil }},
		{"10h", func(p *Plan, _ *Demand, _ *SLO) { p.Layers[0].Remote = []bool{true} }},
		{"10i", func(p *Plan, _ *Demand, _ *SLO) { p.Layers[0].Replicas = 3 }},
		{"10i", func(p *Plan, _ *Demand, _ *SLO) { p.Layers[0].Replicas = 0 }},
	} {
		p := &Plan{Main: 2 * cost.GB, Layers: []Layer{{Remote: []bool{true, true, false}, Memory: 3 * cost.GB, Replicas: 2}}}
		d := &Demand{Prompt: 4, Output: 3, Layers: []Rows{{Prefill: []float64{2, 3, 3}, Decode: []float64{2, 2, 2}}}}
		o := SLO{slow, slow}
		tc.spoil(p, d, &o)
		got := tiny().Limits(p, d, o, 0)
		if len(got) != 1 || got[0].Name != tc.want || !strings.Contains(got[0].String(), "constraint "+tc.want) || strings.Contains(got[0].String(), "%!") ||
			got[0].Shape() != (tc.want == "10d" || tc.want == "10h" || tc.want == "10i") {
			t.Errorf("%s: %v", tc.want, got)
		}
	}
}

// The largest load of LPT is no more than 4/3 - 1/(3z) times the least there is (Graham), all
// loads are there once, and the same loads give the same groups.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Float64Range(0, 10), 0, 7).Draw(t, "loads")
		z := rapid.IntRange(1, 3).Draw(t, "replicas")
		groups, most, err := Partition(loads, z)
		if err != nil {
			t.Fatal(err)
		}
		seen, sums := 0, make([]float64, z)
		for r, g := range groups {
			for _, i := range g {
				seen += 1 << i
				sums[r] += loads[i]
			}
		}
		least := math.Inf(1)
		all := 1
		for range loads {
			all *= z
		}
		for code := range all {
			by := make([]float64, z)
			for _, v := range loads {
				by[code%z] += v
				code /= z
			}
			least = min(least, slices.Max(by))
		}
		if seen != 1<<len(loads)-1 || !near(most, slices.Max(sums)) || most > least*(4./3-1/(3*float64(z)))*(1+1e-9) {
			t.Fatalf("%v: %v, the least is %v", groups, most, least)
		}
	})
	for want, bad := range map[string]func() error{
		"among 0 replicas": func() error { _, _, err := Partition([]float64{1}, 0); return err },
		"load 1 is NaN":    func() error { _, _, err := Partition([]float64{1, math.NaN()}, 1); return err },
	} {
		if err := bad(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if groups, most, err := Partition([]float64{5, 3, 3, 2, 2}, 2); err != nil || most != 8 || !reflect.DeepEqual(groups, [][]int{{0, 3}, {1, 2, 4}}) {
		t.Errorf("%v, %v, %v", groups, most, err)
	}
}

// What is expected of tokens is what drawing each choice by itself gives: all tokens are there, and
// as many rows are remote in the mean as the shares say. Known tokens are counted.
func TestAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rows{Decode: rapid.SliceOfN(rapid.Float64Range(0, 5), 3, 3).Draw(t, "decode")}
		r.Decode[0]++
		remote := rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(t, "remote")
		k, output := rapid.IntRange(1, 3).Draw(t, "k"), rapid.IntRange(0, 50).Draw(t, "output")
		var tokens, rows, some, all float64
		for n, v := range r.Away(remote, k, output) {
			tokens, rows = tokens+v, rows+float64(n)*v
		}
		for e, v := range r.Decode {
			all += v
			if remote[e] {
				some += v
			}
		}
		if !near(tokens, float64(output)) || !near(rows, float64(output*k)*some/all) {
			t.Fatalf("%v tokens, %v rows", tokens, rows)
		}
	})
	r := Rows{Decode: []float64{2, 1, 1}, Tokens: [][]int{{0, 1}, {0, 2}}}
	if got := r.Away([]bool{true, true, false}, 2, 2); !slices.Equal(got, []float64{0, 1, 1}) {
		t.Errorf("%v", got)
	}
}

// A part of a row takes a part of its time, and more rows or less memory never take less.
func TestCompute(t *testing.T) {
	s := tiny()
	s.Functions.Threads = 2
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0, 5).Draw(t, "a"), rapid.Float64Range(0, 5).Draw(t, "b")
		m, n := rapid.Float64Range(1e8, 1e10).Draw(t, "m"), rapid.Float64Range(1e8, 1e10).Draw(t, "n")
		if s.Compute(max(m, n), min(a, b)) > s.Compute(min(m, n), max(a, b))*(1+1e-12) {
			t.Fatal("more is quicker")
		}
	})
	for _, tc := range []struct{ memory, rows, want float64 }{
		{cost.GB, 0, 0}, {cost.GB, 0.5, 0.5}, {cost.GB, 1, 1}, {cost.GB, 7.5, 1}, {2 * cost.GB, 1, 0.5}, {8 * cost.GB, 1, 0.5},
	} {
		if got := s.Compute(tc.memory, tc.rows); !near(got, tc.want) {
			t.Errorf("%v rows with %v bytes take %v s, want %v", tc.rows, tc.memory, got, tc.want)
		}
	}
}

func TestSystemRefused(t *testing.T) {
	if err := tiny().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*System){
		"2 of 1 experts":                       func(s *System) { s.Experts = 1 },
		"functions have 0 replicas at most":    func(s *System) { s.Replicas = 0 },
		"no memory sizes":                      func(s *System) { s.Main = nil },
		"an expert's bytes are NaN":            func(s *System) { s.Expert = math.NaN() },
		"size 1 of the main model's host is 1": func(s *System) { s.Main[1] = 1 },
		"size 1 is 1 bytes":                    func(s *System) { s.Functions.Sizes[1] = 1 },
		"memory costs nothing":                 func(s *System) { s.Functions.Memory = 0 },
		"takes 10 bytes, and a row has 1024":   func(s *System) { s.Functions.Payload = 10 },
		"the largest function has":             func(s *System) { s.Expert = 7 * cost.GB },
		"latency is -1":                        func(s *System) { s.Switch.Latency = -1 },
		"the network's bytes a second are 0":   func(s *System) { s.Network = 0 },
	} {
		s := tiny()
		spoil(s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, spoil := range map[string]func(*Demand){
		"a request of 0 tokens":                  func(d *Demand) { d.Prompt = 0 },
		"layer 0 has rows of 2":                  func(d *Demand) { d.Layers[0].Prefill = d.Layers[0].Prefill[:2] },
		"expert 1 of layer 0 has NaN and 1 rows": func(d *Demand) { d.Layers[0].Prefill[1] = math.NaN() },
	} {
		d := tiny().Expected([]float32{0.5, 0.25, 0.25}, 4, 2)
		if err := d.Check(tiny().Model); err != nil || d.Layers[0].Prefill[0] != 4 || d.Layers[0].Decode[2] != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		spoil(&d)
		if err := d.Check(tiny().Model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
