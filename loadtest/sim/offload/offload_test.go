package offload

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// tiny is a model of few small experts.
func tiny() Model {
	return Model{Name: "tiny", Shape: routing.Shape{Layers: 5, Experts: 6, TopK: 2}, ExpertBytes: 100e6, LayerBytes: 10e6, HeadBytes: 10e6}
}

// checker is a test, or a property of one.
type checker interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func bed(t checker) Testbed {
	t.Helper()
	b, err := RTX3090()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tinyLab(t checker, p routing.StateParams, seed uint64, batch int) *Lab {
	t.Helper()
	traffic, err := Synthetic(tiny(), p, Texts{Before: 4, Served: 3, Prompt: 6, Answer: 8, Domains: 2}, seed)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := NewLab(traffic, bed(t), DefaultDelays(), 2, 20, batch)
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// every is each policy that there is.
func every() (all []Policy) {
	patterns, orders := Ablation()
	all = append(append(append(all, Policies()...), Asynchronous()...), patterns...)
	return append(all, orders...)
}

// Under each policy and budget, down to one expert a host, steps come to their end, each demand
// is counted once, links move no more than there was time for, no fewer bytes come than
// Belady's order loads, and nothing is faster than with all experts held.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := routing.DemoStates().Stronger(rapid.Float64Range(0, 3).Draw(t, "strength"))
		lab := tinyLab(t, params, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 3).Draw(t, "batch"))
		lab.Hosts = rapid.IntRange(1, 3).Draw(t, "hosts")
		if rapid.Bool().Draw(t, "one link") {
			lab.Shared = lab.Link.Bandwidth
		}
		if rapid.Bool().Draw(t, "a tier below") {
			lab.Below = Below{lab.ExpertBytes * rapid.Float64Range(1, 30).Draw(t, "experts"), cost.Link{Latency: 1e-4, Bandwidth: 5e9}}
		}
		budget := float64(lab.Hosts) * lab.ExpertBytes * rapid.Float64Range(1, 12).Draw(t, "budget")
		held := run(t, lab, Policies()[0], budget)
		floor, err := Find(Floor)
		if err != nil {
			t.Fatal(err)
		}
		least := run(t, lab, floor, budget)
		for _, p := range every() {
			r := run(t, lab, p, budget)
			for _, phase := range []*Phase{&r.Prefill, &r.Decode} {
				if got, want := phase.Hits+phase.Late+phase.Misses, demands(lab.work, phase == &r.Prefill); got != want {
					t.Fatalf("%s: %d demands are counted, there were %d", p.Name, got, want)
				}
				if most := phase.Seconds * lab.Link.Bandwidth * float64(lab.Hosts); phase.Total() > most*(1+1e-9) {
					t.Fatalf("%s: links moved %v bytes where there was time for %v", p.Name, phase.Total(), most)
				}
			}
			if r.TPOT() < held.TPOT()*(1-1e-9) || r.TTFT() < held.TTFT()*(1-1e-9) {
				t.Fatalf("%s takes %v and %v, with all experts held %v and %v", p.Name, r.TTFT(), r.TPOT(), held.TTFT(), held.TPOT())
			}
			if !p.Whole && together(lab, budget) && loads(r) < loads(least) {
				t.Fatalf("%s loads %d experts, Belady's order %d", p.Name, loads(r), loads(least))
			}
			if got, most := r.Used+r.Overdue, float64(r.Prefill.Fetches+r.Decode.Fetches)*lab.ExpertBytes; got > most {
				t.Fatalf("%s: %v bytes of prefetches were used of %v", p.Name, got, most)
			}
		}
	})
}

// together reports whether what a layer asks of a host always fits there at once: else the order
// counts in which a host computes it.
func together(lab *Lab, budget float64) bool {
	room := int(budget / float64(lab.Hosts) / lab.ExpertBytes)
	for s := range lab.work.Steps {
		for l := range lab.Layers {
			asked := make([]int, lab.Hosts)
			for x, rows := range lab.work.Loads(s, l) {
				if h := (l*lab.Experts + x) % lab.Hosts; rows > 0 {
					if asked[h]++; asked[h] > room {
						return false
					}
				}
			}
		}
	}
	return true
}

func loads(r *Result) int {
	return r.Prefill.Loads + r.Decode.Loads + r.Prefill.Fetches + r.Decode.Fetches
}

func demands(w *Workload, prefill bool) (n int) {
	for s, step := range w.Steps {
		for l := range w.Layers {
			for _, rows := range w.Loads(s, l) {
				if rows > 0 && step.Prefill == prefill {
					n++
				}
			}
		}
	}
	return n
}

func run(t checker, lab *Lab, p Policy, budget float64) *Result {
	r, err := lab.Run(p, budget)
	if err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return r
}

// The same runs give the same results.
func TestSame(t *testing.T) {
	for _, p := range Policies() {
		a, b := tinyLab(t, routing.DemoStates(), 3, 2), tinyLab(t, routing.DemoStates(), 3, 2)
		if one, other := run(t, a, p, 1.3e9), run(t, b, p, 1.3e9); !reflect.DeepEqual(one, other) {
			t.Errorf("%s: %+v, and again %+v", p.Name, one, other)
		}
	}
}

// Where all experts fit each is loaded once, and later steps take what they do with all held.
func TestAllFit(t *testing.T) {
	lab := tinyLab(t, routing.DemoStates(), 1, 1)
	held := run(t, lab, Policies()[0], lab.All())
	r := run(t, lab, Policies()[1], lab.All())
	last := len(r.Steps) - 1
	if got := loads(r); got > lab.Layers*lab.Experts || math.Abs(r.Steps[last]-held.Steps[last]) > 1e-9 {
		t.Errorf("%d loads of %d experts; the last step takes %v, held %v", got, lab.Layers*lab.Experts, r.Steps[last], held.Steps[last])
	}
}

// A layer takes what attention and its experts do: one host alone, one expert missing.
func TestLayerTime(t *testing.T) {
	m := Model{Name: "one", Shape: routing.Shape{Layers: 2, Experts: 1, TopK: 1}, ExpertBytes: 320e6, LayerBytes: 83.3e6, HeadBytes: 83.3e6}
	traffic, err := Synthetic(m, routing.StateParams{Sharp: 1}, Texts{Before: 2, Served: 1, Prompt: 1, Answer: 2, Domains: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := bed(t)
	b.Hosts = 1
	lab, err := NewLab(traffic, b, DefaultDelays(), 1, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	access := func(bytes float64) float64 { return lab.reads(bytes) }
	load := m.ExpertBytes/b.Link.Bandwidth + b.Link.Latency
	base := 3*access(m.LayerBytes) + 2*access(m.ExpertBytes)
	// One expert fits: both layers' are loaded in each step.
	if got, want := run(t, lab, Policies()[1], m.ExpertBytes).TPOT(), base+2*load; math.Abs(got-want) > 1e-9 {
		t.Errorf("a step takes %v, want %v", got, want)
	}
	// Belady keeps one of the two where both fit, as does everybody.
	if got := run(t, lab, Policies()[1], 2*m.ExpertBytes).TPOT(); math.Abs(got-base) > 1e-9 {
		t.Errorf("a step takes %v, want %v", got, base)
	}
}

// reads is a call on the testbed's device with one row.
func (b *Lab) reads(bytes float64) float64 {
	e := engine{Settings: Settings{Testbed: b.Testbed}}
	return e.Settings.Testbed.Device.Compute(access(bytes))
}

func TestRefusals(t *testing.T) {
	lab := tinyLab(t, routing.DemoStates(), 1, 1)
	for name, tc := range map[string]struct {
		change func(b *Lab) float64
		want   string
	}{
		"budget":    {func(*Lab) float64 { return 0.5e9 }, "0.50 GB on 6 hosts holds no expert of tiny a host; one takes 0.1000 GB: take 0.60 GB or more"},
		"memory":    {func(*Lab) float64 { return 1e12 }, "1000 GB is more than 6 hosts have"},
		"bandwidth": {func(b *Lab) float64 { b.Link.Bandwidth = 0; return 1e9 }, "needs both above 0"},
		"below":     {func(b *Lab) float64 { b.Below.Bytes = 1e6; return 1e9 }, "the memory below has 0.00 GB, filled at 0 bytes a second; it needs 0.10 GB"},
		"hosts":     {func(b *Lab) float64 { b.Hosts = 0; return 1e9 }, "a testbed has 0 hosts"},
	} {
		other := *lab
		if _, err := other.Run(Policies()[1], tc.change(&other)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := NewLab(lab.Traffic, lab.Testbed, lab.Delays, 5, 20, 1); err == nil || !strings.Contains(err.Error(), "1 to 4") {
		t.Errorf("distance: %v", err)
	}
	if _, err := lab.Further(0); err == nil {
		t.Error("no distance: no error")
	}
	if _, err := NewLab(lab.Traffic, lab.Testbed, lab.Delays, 2, 20, 0); err == nil {
		t.Error("no batch: no error")
	}
	if _, err := Open("gpt-9"); err == nil || !strings.Contains(err.Error(), "qwen1.5-moe") {
		t.Errorf("shape: %v", err)
	}
	if _, err := Find("clock"); err == nil {
		t.Error("policy: no error")
	}
	if _, err := lab.Run(Policy{Name: "x", Predictor: "y", Order: "lru"}, 1e9); err == nil {
		t.Error("predictor: no error")
	}
	if _, err := lab.Run(Policy{Name: "x", Predictor: Nothing, Order: "mru"}, 1e9); err == nil || errors.Is(err, ErrStuck) {
		t.Errorf("order: %v", err)
	}
}

// On a link that hosts share, loads that rows wait for go first.
func TestSharedLink(t *testing.T) {
	e := &engine{Settings: Settings{Testbed: bed(t)}, hosts: make([]host, 3), units: make([]state, 3)}
	for h := range e.hosts {
		e.hosts[h] = host{engine: e, running: h, stop: none}
	}
	whole := e.Link.Bandwidth
	for _, tc := range []struct {
		shared          float64
		waits           int // of the three loads
		demanded, ahead float64
	}{{0, 1, whole, whole}, {whole, 0, whole, whole / 3}, {whole, 1, whole, 0}, {whole, 2, whole / 2, 0}, {2 * whole, 1, whole, whole / 2}} {
		e.Shared = tc.shared
		for i := range e.units {
			e.units[i].demanded = i < tc.waits
		}
		if demanded, ahead := e.rates(); math.Abs(demanded-tc.demanded) > 1 || math.Abs(ahead-tc.ahead) > 1 {
			t.Errorf("%+v: %v and %v", tc, demanded, ahead)
		}
	}
}

// Models have the bytes that the issue of the paper's figures names.
func TestModels(t *testing.T) {
	for name, want := range map[string][2]float64{"mixtral-8x7b": {352.3e6, 90.2e9}, "qwen1.5-moe": {17.3e6, 24.9e9}, "phi-3.5-moe": {157.3e6, 80.5e9}} {
		m, err := Open(name)
		if err != nil || math.Abs(m.ExpertBytes-want[0]) > 0.1e6 || math.Abs(m.All()-want[1]) > 0.1e9 {
			t.Errorf("%s: %v bytes, %v in all, %v", name, m.ExpertBytes, m.All(), err)
		}
	}
	if d := Demo(); math.Abs(d.Budget(12e9)/d.All()-12e9/80.53e9) > 1e-3 {
		t.Errorf("12 GB leave the demo model %v of its experts", d.Budget(12e9)/d.All())
	}
}
