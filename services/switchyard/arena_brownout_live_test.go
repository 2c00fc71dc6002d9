package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/sim/bursts"
)

// Settings are compared with what ran beside them, and with the simulator, which is told what a step takes
// beside its experts by the runs without a brownout.
func TestDimmedLines(t *testing.T) {
	run := func(seconds, experts float64, after int) dimmedRun {
		return dimmedRun{seconds: seconds, price: bursts.Price{Experts: experts}, steps: 7, before: 100, after: after}
	}
	s := dimmedSuite{ArenaCmd: &ArenaCmd{}, profile: &profiles.Profile{Name: "mine"}, runs: [][]dimmedRun{
		{run(0.03, 0.02, 100), run(0.03, 0.02, 100)}, {run(0.02, 0.01, 50), run(0.02, 0.01, 50)}, {run(0.016, 0.004, 20), run(0.016, 0.004, 20)}, {run(0.03, 0.01, 50), run(0.02, 0.01, 50)},
	}}
	s.Device, s.Engine = "paced", "separate"
	all := s.lines()
	for k, want := range []struct {
		ratio, simulated, accesses float64
		within                     string
	}{{1, 30, 1, "yes"}, {1.5, 20, 0.5, "yes"}, {1.875, 14, 0.2, "no"}, {1.25, 20, 0.5, "open"}} {
		l := all[k]
		if math.Abs(l.Ratio-want.ratio) > 1e-9 || math.Abs(l.Simulated-want.simulated) > 1e-9 || l.Accesses != want.accesses || l.Within != want.within || l.Steps != 14 {
			t.Errorf("%+v, want %+v", l, want)
		}
		if text := l.String(); !strings.Contains(text, "paced:mine") || !strings.Contains(text, "within 10 %: "+want.within) {
			t.Error(text)
		}
	}
	s.Device = "cpu"
	if l := s.lines()[1]; l.Simulated != 0 || l.Within != "" || strings.Contains(l.String(), "simulated") {
		t.Errorf("%+v", l)
	}
}

// Layers that the model does not have are refused by name.
func TestDimmedExempt(t *testing.T) {
	for layer, want := range map[int]string{-1: "layer -1", 8: "--exempt names layer 8; the model has layers 0 to 7", 7: ""} {
		s := dimmedSuite{ArenaCmd: &ArenaCmd{BrownoutFlags: BrownoutFlags{Exempt: []int{0, layer}}}}
		got, err := s.exempt(8)
		if want == "" && (err != nil || !slices.Equal(got, []uint32{0, 7})) {
			t.Errorf("layer %d: %v, %v", layer, got, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("layer %d: %v, want %q", layer, err, want)
		}
	}
}
