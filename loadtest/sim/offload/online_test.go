package offload

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// fresh is a lab like another one, of which nothing is foreseen yet.
func fresh(t *testing.T, seed uint64, change func(*Lab)) *Lab {
	t.Helper()
	lab := tinyLab(t, routing.DemoStates().Stronger(3), seed, 1)
	change(lab)
	return lab
}

// Stores that are empty foretell nothing at first, and more the longer they grow; what is trained
// before is not among them.
func TestEmptyStores(t *testing.T) {
	full := fresh(t, 5, func(*Lab) {})
	for _, k := range []Kind{Selected, Counted} {
		empty := recall(t, fresh(t, 5, func(b *Lab) { b.Empty = true }), k)
		grown := recall(t, fresh(t, 5, func(b *Lab) { b.Empty, b.Grows = true, true }), k)
		known := recall(t, full, k)
		if grown <= empty || k == Selected && empty != 0 || known <= empty {
			t.Errorf("%s: recall %.3f from empty stores, %.3f where they grow, %.3f with texts before", k, empty, grown, known)
		}
	}
	if got, want := recall(t, fresh(t, 5, func(b *Lab) { b.Empty = true }), Learned), recall(t, full, Learned); got != want {
		t.Errorf("trained networks foresee %.3f, from empty stores %.3f", want, got)
	}
}

// What a store has given is not changed by what enters it later.
func TestGrowsBehind(t *testing.T) {
	lab := fresh(t, 5, func(b *Lab) { b.Grows = true; b.Capacity = 3 })
	m, err := lab.Maps()
	if err != nil {
		t.Fatal(err)
	}
	other, err := fresh(t, 5, func(b *Lab) { b.Capacity = 3 }).Maps()
	if err != nil {
		t.Fatal(err)
	}
	for l, a := range m.steps[0][0].layers { // of the first step, before anything has entered
		if b := other.steps[0][0].layers[l]; a.score != b.score || a.probs[0] != b.probs[0] {
			t.Errorf("layer %d: %v and %v", l, a.score, b.score)
		}
	}
}

// Hosts that begin full load less, as plans deal experts out.
func TestFilled(t *testing.T) {
	one, err := Find(OnDemand)
	if err != nil {
		t.Fatal(err)
	}
	cold := fresh(t, 5, func(*Lab) {})
	warm := fresh(t, 5, func(b *Lab) { b.Filled, b.Anew = true, true })
	if a, b := run(t, warm, one, warm.All()), run(t, cold, one, cold.All()); loads(a) != 0 || loads(b) == 0 {
		t.Errorf("%d loads where all is there, %d where nothing is", loads(a), loads(b))
	}
	for layer := range warm.Layers {
		for e := range warm.Experts {
			if got := warm.At(layer, e, warm.Experts); got != e%warm.Hosts {
				t.Errorf("expert %d of layer %d is on host %d", e, layer, got)
			}
		}
	}
}

// Layers take what they do beside, each once a step, and steps what comes before them.
func TestBeside(t *testing.T) {
	held := Policies()[0]
	plain := run(t, fresh(t, 5, func(*Lab) {}), held, 1e9)
	with := run(t, fresh(t, 5, func(b *Lab) {
		b.Prefill = Around{Step: 0.003, Before: 0.001, Held: 0.0005, After: 0.0005}
		b.Decode = Around{Before: 0.0004, Hops: 0.0002, Held: 0.0002, After: 0.0004}
	}), held, 1e9)
	n := float64(tiny().Layers)
	if a, b := with.TTFT()-plain.TTFT(), with.TPOT()-plain.TPOT(); math.Abs(a-0.003-0.002*n) > 1e-9 || math.Abs(b-0.001*n) > 1e-9 {
		t.Errorf("%v and %v more", a, b)
	}
}

// What is foretold comes when it is told to: far too late for the layers that it is of, it fetches nothing.
func TestLags(t *testing.T) {
	fmoe, err := Find(FMoE)
	if err != nil {
		t.Fatal(err)
	}
	of := func(a Around) *Result {
		a.Before = 0.004
		return run(t, fresh(t, 5, func(b *Lab) { b.Prefill, b.Decode = a, a }), fmoe, 2e9)
	}
	soon, told, late := of(Around{}), of(Around{Lag: Measured{1e-6, 1}, Lead: Measured{0.004, 1}}), of(Around{Lag: Measured{100, 1}, Lead: Measured{1e-9, 1}})
	if soon.Decode.Fetches == 0 || told.Decode.Fetches == 0 || late.Decode.Fetches*4 > soon.Decode.Fetches {
		t.Errorf("%d, %d and %d fetches", soon.Decode.Fetches, told.Decode.Fetches, late.Decode.Fetches)
	}
	if late.TPOT() <= told.TPOT() {
		t.Errorf("%v s with hints that come too late, %v with those that are in time", late.TPOT(), told.TPOT())
	}
}

// Hints that always come with their rows are not those of which nothing is known.
func TestLagOfZero(t *testing.T) {
	fmoe, err := Find(FMoE)
	if err != nil {
		t.Fatal(err)
	}
	of := func(a Around) float64 {
		return run(t, fresh(t, 5, func(b *Lab) {
			b.Delays = Delays{100, 100, 100, 100, 100} // far too late
			b.Prefill, b.Decode = a, a
		}), fmoe, 2e9).TPOT()
	}
	unknown, zero, soon := of(Around{}), of(Around{Lag: Measured{0, 2}, Lead: Measured{0, 2}}), of(Around{Lag: Measured{1e-12, 1}, Lead: Measured{1e-12, 1}})
	if math.Abs(zero-soon) > 1e-6 || math.Abs(zero-unknown) < 1e-4 {
		t.Errorf("%v s with hints that come with their rows, %v just behind them, %v at a delay of 100 s", zero, soon, unknown)
	}
}

// Requests have their lengths, and take their steps' time.
func TestRequests(t *testing.T) {
	traffic, err := Requests(tiny(), routing.DemoStates(), Texts{Before: 3, Served: 9, Prompt: 4, Answer: 4, Domains: 2}, []Length{{5, 3}, {0, 1}, {2, 9}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := NewLab(traffic, bed(t), DefaultDelays(), 2, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]int{{5, 2}, {1, 1}, {2, 8}} {
		if r := traffic.Served[i]; r.Prompt != want[0] || r.N-r.Prompt != want[1] {
			t.Errorf("request %d has %d and %d rows", i, r.Prompt, r.N-r.Prompt)
		}
	}
	r := run(t, lab, Policies()[1], 2e9)
	sum := 0.0
	for _, s := range r.Batches(lab.Work()) {
		sum += s
	}
	if all := r.Prefill.Seconds + r.Decode.Seconds; len(r.Batches(lab.Work())) != 3 || math.Abs(sum-all) > 1e-9 {
		t.Errorf("%v of %v s", sum, all)
	}
}
