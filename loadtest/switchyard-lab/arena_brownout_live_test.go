package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// A setting is compared with the steps without a brownout of the same runs, and with the simulator, which is told
// what a step takes beside its experts by these.
func TestDimmedLines(t *testing.T) {
	run := func(none, experts, dim, dimExperts float64, after int) dimmedRun {
		return dimmedRun{dimmedSteps{none, experts, 7, 100, 100}, dimmedSteps{dim, dimExperts, 7, 100, after}, 0}
	}
	s := dimmedSuite{BrownoutCmd: &BrownoutCmd{}, profile: &profiles.Profile{Name: "mine"}, runs: [][]dimmedRun{
		{run(0.03, 0.02, 0.02, 0.01, 50), run(0.06, 0.05, 0.04, 0.03, 50)}, {run(0.03, 0.02, 0.016, 0.004, 20), run(0.03, 0.02, 0.016, 0.004, 20)}, {run(0.03, 0.02, 0.03, 0.01, 50), run(0.03, 0.02, 0.02, 0.01, 50)},
	}}
	s.Device, s.Engine = "paced", "separate"
	all := s.lines()
	for k, want := range []struct {
		none, ratio, simulated, accesses float64
		within                           string
	}{{45, 1.5, 30, 0.5, "yes"}, {30, 1.875, 14, 0.2, "no"}, {30, 1.25, 20, 0.5, "open"}} {
		l := all[k]
		if math.Abs(l.None-want.none) > 1e-9 || math.Abs(l.Ratio-want.ratio) > 1e-9 || math.Abs(l.Simulated-want.simulated) > 1e-9 || l.Accesses != want.accesses || l.Within != want.within || l.Steps != 14 {
			t.Errorf("%+v, want %+v", l, want)
		}
		if text := l.String(); !strings.Contains(text, "paced:mine") || !strings.Contains(text, "within 10 %: "+want.within) {
			t.Error(text)
		}
	}
	s.Device = "cpu"
	s.runs[0] = nil // its way was not wanted
	if l := s.lines()[0]; l.Way != 4 || l.Simulated != 0 || l.Within != "" || strings.Contains(l.String(), "simulated") {
		t.Errorf("%+v", l)
	}
}

// Turns of steps go none, one, one, none; the first step of each does not count, and no step with a prompt does.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, began := &turns{order: &layer.Order{}}, []time.Time{}
		step := func(prefill bool) bool {
			got := d.Now(prefill).Order != nil
			began = append(began, time.Now())
			time.Sleep(time.Millisecond)
			return got
		}
		if dimmed, counts := d.at(time.Now()); dimmed || counts {
			t.Error("a step counts before any began")
		}
		if step(true) {
			t.Error("a step with a prompt obeys")
		}
		for i := range 5 * dimmedTurn {
			turn := i / dimmedTurn
			if got, want := step(false), turn == 1 || turn == 2; got != want {
				t.Errorf("step %d obeys: %v, want %v", i, got, want)
			}
		}
		for i, at := range began {
			turn := (i - 1) / dimmedTurn
			dimmed, counts := d.at(at)
			if dimmed != (i > 0 && (turn == 1 || turn == 2)) || counts != (i > 0 && (i-1)%dimmedTurn > 0) {
				t.Errorf("step %d: dimmed %v, counts %v", i, dimmed, counts)
			}
		}
	})
}

// Layers that the model does not have are refused by name.
func TestDimmedExempt(t *testing.T) {
	for layer, want := range map[int]string{-1: "layer -1", 8: "--exempt names layer 8; the model has layers 0 to 7", 7: ""} {
		s := dimmedSuite{BrownoutCmd: &BrownoutCmd{Exempt: []int{0, layer}}}
		got, err := s.exempt(8)
		if want == "" && (err != nil || !slices.Equal(got, []uint32{0, 7})) {
			t.Errorf("layer %d: %v, %v", layer, got, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("layer %d: %v, want %q", layer, err, want)
		}
	}
}
