package rented

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// conditions are those of the platform of the paper's testbed.
func conditions(t testing.TB) Conditions {
	t.Helper()
	p, err := profiles.OpenPlatform("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	return Conditions{Platform: p.Cost(), Ratio: 3}
}

// run is a shape with some requests.
func run(t testing.TB, name string, past, served int, times float64) (Shape, *Run, *Texts) {
	t.Helper()
	s, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := s.Write(routing.DemoStates(), past, served, 1)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.Store(texts, sps.Paper(s.Layers, s.Experts, texts.Width), true)
	if err != nil {
		t.Fatal(err)
	}
	system, err := s.System(conditions(t))
	if err != nil {
		t.Fatal(err)
	}
	o, err := Objective(system, texts.Served, times)
	if err != nil {
		t.Fatal(err)
	}
	return s, &Run{System: system, SLO: o, Decided: 0.05, Seed: 1, Foretold: func(q *Served) []float32 { return store.Predict(q.Vector) }}, texts
}

// Every shape can be served on each platform, and the paper's sizes are there.
func TestShapes(t *testing.T) {
	for _, name := range Names() {
		s, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.System(conditions(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, _ := Open("deepseek-v2-lite")
	if y, _ := d.System(conditions(t)); len(y.Sizes()) != 41 || len(y.Main) != 391 || y.Sizes()[0] != 1000*mb || y.Main[390] != 40000*mb {
		t.Errorf("%d and %d sizes", len(y.Sizes()), len(y.Main))
	}
	if _, err := Open("gpt3"); err == nil || !strings.Contains(err.Error(), `no shape "gpt3"; there are gpt2_moe`) {
		t.Errorf("%v", err)
	}
	if _, err := d.System(Conditions{}); err == nil || !strings.Contains(err.Error(), "costs 0 times") {
		t.Errorf("%v", err)
	}
	if _, err := d.Write(routing.DemoStates(), 0, 1, 1); err == nil {
		t.Error("texts without a past are written")
	}
}

// Each policy serves each request, the same twice; where Remoe plans, no limit is broken by what it
// foretells, and the best of all plans costs no more than any other that keeps the SLO. Draws
// around the mean may make a request of either a little dearer.
func TestPolicies(t *testing.T) {
	_, r, texts := run(t, "small", 60, 4, 3)
	costs := map[string]float64{}
	for _, p := range Policies(0.8) {
		for i := range texts.Served {
			a, err := p.Serve(r, &texts.Served[i])
			if err != nil {
				t.Fatal(err)
			}
			b, err := p.Serve(r, &texts.Served[i])
			if err != nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: %v, %+v and %+v", p.Name, err, a, b)
			}
			if a.Cost() <= 0 || a.TTFT() <= 0 || a.TPOT() <= 0 || a.Decision != nil && len(a.Decision.Limits) > 0 {
				t.Fatalf("%s: %+v", p.Name, a)
			}
			costs[p.Name] += a.Cost()
		}
	}
	if costs["exact"] > 1.01*costs["mix"] || costs["exact"] > 1.01*costs["remoe"] {
		t.Errorf("%v", costs)
	}
}

// Remoe serves DeepSeek-V2-Lite's shape with an objective of twice MIX's for less than half of what
// MIX costs, and for less than CPU and GPU (the paper's figure 9b).
func TestFigure9b(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("one goroutine does all of it")
	}
	_, r, texts := run(t, "deepseek-v2-lite", 20, 1, 2)
	costs := map[string]float64{}
	for _, p := range Policies(1) {
		if p.Name == "exact" {
			continue
		}
		o, err := p.Serve(r, &texts.Served[0])
		if err != nil {
			t.Fatal(err)
		}
		costs[p.Name] = o.Cost()
	}
	if ours := costs["remoe"]; ours >= costs["mix"]/2 || ours >= costs["cpu"] || ours >= costs["gpu"] {
		t.Errorf("%v", costs)
	}
}

// Methods foretell in the order of the paper's figure 8: similar prompts better than all prompts,
// and those better than even shares.
func TestMethods(t *testing.T) {
	s, _, texts := run(t, "small", 200, 20, 2)
	by := map[string]float64{}
	set := sps.Paper(s.Layers, s.Experts, texts.Width)
	for _, m := range Methods(set, len(texts.Past)) {
		store, err := s.Store(texts, m.Settled, m.Fit)
		if err != nil {
			t.Fatal(err)
		}
		for i := range texts.Served {
			q := &texts.Served[i]
			foretold, err := m.Predict(store, q)
			if err != nil {
				t.Fatal(err)
			}
			by[m.Name] += sps.Divergence(foretold, q.Activation, s.Experts)
		}
	}
	if !(by["sps+fitted"] < by["dop"] && by["dop"] < by["ef"] && by["sps+fitted"] < 1.1*by["bf+fitted"]) {
		t.Errorf("%v", by)
	}
}

// The printed bound does not cover what comes, Hoeffding's does, and a calibrated one about as often
// as it says. Outputs can be shortened.
func TestCoverage(t *testing.T) {
	s, r, texts := run(t, "small", 60, 30, 2)
	printed, right := s.Covered(remoe.Bound{Printed: true}, texts.Served, r.Foretold), s.Covered(remoe.Bound{}, texts.Served, r.Foretold)
	scale := s.Calibrate(texts.Served[:15], r.Foretold)
	if got := s.Covered(remoe.Bound{Scale: scale}, texts.Served[15:], r.Foretold); printed.Any > 0.9 || right.Any < printed.Any || got.Least < 0.8 || scale <= 0 {
		t.Errorf("printed %v, Hoeffding %v, calibrated by %v %v", printed, right, scale, got)
	}
	for _, q := range s.Shortened(texts.Served, 10) {
		if err := q.Demand.Check(s.Model); err != nil || q.Demand.Output != 10 {
			t.Fatalf("%v", err)
		}
	}
}

func TestMemory(t *testing.T) {
	s, r, texts := run(t, "small", 20, 1, 2)
	r.Main = []float64{mb}
	for _, p := range Policies(1) {
		if _, err := p.Serve(r, &texts.Served[0]); slices.Contains([]string{"cpu", "fetch", "mix"}, p.Name) && !errors.Is(err, ErrMemory) {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if _, err := Objective(r.System, texts.Served, 1); !errors.Is(err, ErrMemory) {
		t.Errorf("%s: %v", s.Name, err)
	}
}
