package arena

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
)

func fewPoints() (Settings, Points) {
	s := small()
	s.Seeds = 2
	return s, Points{Of: []float64{0.3, 0.9}, Slice: 2 * time.Second, Idle: time.Second, SLO: requests.SLO{TTFT: 500 * time.Millisecond, TPOT: 100 * time.Millisecond}, MaxRows: 64}
}

// Every policy is served at each point, with each seed, with pauses at the first point, and
// with even routing; static at its capacity keeps the goal and beyond it does not.
func TestServe(t *testing.T) {
	s, p := fewPoints()
	r, err := Serve(context.Background(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(sim.Policies()) * 2 * (2 + 2 + 1); len(r.Lines) != want || len(r.Verdicts) != len(claims) || len(r.Capacities) != 2 {
		t.Errorf("%d lines of %d, %v, %v", len(r.Lines), want, r.Verdicts, r.Capacities)
	}
	for _, l := range r.Lines {
		if !(l.TTFTMean > 0 && l.Mean > 0 && l.Average > 0 && l.Peak >= l.Average-1e-6 && l.Good >= l.Strict && l.Lax >= l.Good) {
			t.Errorf("%+v", l)
		}
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"points.json", "points.csv", "changes.csv", "points.md"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || strings.Contains(string(data), "NaN") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A host that goes makes requests wait under every policy, and none is lost.
func TestFail(t *testing.T) {
	s, p := fewPoints()
	p.Idle, p.Of = 0, []float64{0.3}
	calm, err := Serve(context.Background(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	p.Fail = time.Second
	failed, err := Serve(context.Background(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range failed.Lines {
		if before := calm.Lines[i]; l.Rate != before.Rate || l.Unfinished > 0 || l.TTFTMean+l.TPOTMean <= before.TTFTMean+before.TPOTMean {
			t.Errorf("%+v, without the failure %+v", l, before)
		}
	}
}

func TestCapacity(t *testing.T) {
	s, p := fewPoints()
	y := server{Settings: s, Points: p, kind: routingFitted, params: s.Routing}
	y.Seeds = 1
	var err error
	if y.m, err = sim.Open("mixtral-8x7b"); err != nil {
		t.Fatal(err)
	}
	if err := y.prepare(); err != nil {
		t.Fatal(err)
	}
	at, err := y.capacity(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for factor, want := range map[float64]bool{1: true, 1.02: false} {
		if l, err := y.serve(context.Background(), setting{}, factor*at, 0, static()); err != nil || (l.Good >= requests.Goal) != want {
			t.Errorf("at %v of capacity %v are good, %v", factor, l.Good, err)
		}
	}
	y.SLO.TTFT = time.Microsecond
	if _, err := y.capacity(context.Background()); err == nil || !strings.Contains(err.Error(), "--slo-ttft") {
		t.Errorf("an SLO that nothing keeps: %v", err)
	}
}

func TestRulings(t *testing.T) {
	at := func(policy string, seed uint64, mean, memory float64) Served {
		return Served{setting: setting{"m", routingFitted, false, 0.9}, figures: figures{Policy: policy, Mean: mean}, Seed: seed, Average: memory}
	}
	for _, tc := range []struct {
		name   string
		second float64 // our mean with the second seed
		want   Verdict
	}{{"within", 1.009, Reached}, {"beyond", 1.5, Open}} {
		r := &Operating{Lines: []Served{at("static", 1, 1, 1), at("static", 2, 1, 1), at(ours, 1, 1.009, 1), at(ours, 2, tc.second, 1)}}
		r.conclude()
		if v := r.Verdicts[0]; v.Verdict != tc.want || !strings.Contains(v.Worst, "layer mean") {
			t.Errorf("%s: %+v", tc.name, v)
		}
	}
	var y Ruling
	y.rule(Change{What: "layer mean", Change: 0.02, Low: 0.015, High: 0.025}, 0.01)
	if y.Verdict != Missed {
		t.Errorf("%+v", y)
	}
	y = Ruling{}
	y.rule(Change{What: goodShare.what, Change: 0.1, Low: 0.05, High: 0.15}, 0)
	if y.Verdict != Reached {
		t.Errorf("more good requests: %+v", y)
	}
}

// Up to 0.3 of capacity the best within the bound has 1.1 times the memory of static at most,
// above it no more than eplb-full.
func TestBest(t *testing.T) {
	r := &Operating{}
	for _, load := range []float64{0.3, 0.9} {
		for _, p := range []struct {
			name         string
			mean, memory float64
		}{{"static", 4, 10}, {"eplb+", 3, 20}, {"eplb-full", 5, 40}, {"moeless", 1, 50}, {ours, 0.5, 10}, {"oracle", 0.1, 10}} {
			r.Lines = append(r.Lines, Served{setting: setting{"m", routingFitted, false, load}, figures: figures{Policy: p.name, Mean: p.mean}, Average: p.memory})
		}
	}
	for load, want := range map[float64][2]string{0.3: {"static", "moeless"}, 0.9: {"eplb+", "moeless"}} {
		at := setting{"m", routingFitted, false, load}
		if got := [2]string{r.bestWithin(at, layerMean), r.best(at, layerMean)}; got != want {
			t.Errorf("load %v: %v, want %v", load, got, want)
		}
	}
	if got := (&Operating{}).bestWithin(setting{}, layerMean); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestPointsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Settings, *Points)
		want   string
	}{
		"none":    {func(_ *Settings, p *Points) { p.Of = nil }, "no load is named"},
		"below 0": {func(_ *Settings, p *Points) { p.Of = []float64{-0.1} }, "load -0.1 is no part"},
		"NaN":     {func(_ *Settings, p *Points) { p.Of = []float64{math.NaN()} }, "load NaN is no part"},
		"twice":   {func(_ *Settings, p *Points) { p.Of = []float64{0.3, 0.3} }, "0.3 is named twice"},
		"slice":   {func(_ *Settings, p *Points) { p.Slice = 0 }, "a slice of 0s"},
		"seeds":   {func(s *Settings, _ *Points) { s.Seeds = 1 }, "needs 2 to 20"},
		"SLO":     {func(_ *Settings, p *Points) { p.SLO.TTFT = 0 }, "both must be above 0"},
		"rows":    {func(_ *Settings, p *Points) { p.MaxRows = 0 }, "0 rows at most"},
		"shapes":  {func(s *Settings, _ *Points) { s.Shapes = []string{"gpt-9"} }, `no shape "gpt-9"`},
	} {
		s, p := fewPoints()
		tc.change(&s, &p)
		if _, err := Serve(context.Background(), s, p); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	s, p := fewPoints()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Serve(ctx, s, p); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
