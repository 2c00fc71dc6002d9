package arena

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/sim"
)

// Each assumed constant is run with each factor, and the extremes are those of the lines.
func TestSweep(t *testing.T) {
	s := small()
	s.Variants, s.Sweep = false, true
	r := compare(t, s)
	m, err := sim.Open("mixtral-8x7b")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	lines := 0
	for _, l := range r.Lines {
		if l.Part == partConstants {
			names[l.Constant] = true
			lines++
		}
	}
	if want := len(constants(m)); len(names) != want || lines != want*len(factors)*len(r.suite.Swept) {
		t.Errorf("%d constants in %d lines, want %d", len(names), lines, want)
	}
	for _, key := range []string{"wrong_predictions", "read_bytes_per_second", "cold_start_seconds" + mistaken} {
		if !names[key] {
			t.Errorf("%s is not varied; there are %v", key, names)
		}
	}
	if len(r.Swings) != 2*3*len(r.suite.Measures) {
		t.Errorf("%d swings", len(r.Swings))
	}
	for _, w := range r.Swings {
		if w.Low.Change > w.High.Change || w.Low.Constant == "" {
			t.Errorf("%+v", w)
		}
	}
}

// A policy that is mistaken about the device decides as before, on a device that is not.
func TestMistaken(t *testing.T) {
	m, err := sim.Open("mixtral-8x7b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range constants(m) {
		s := sim.Defaults(m)
		if err := c.set(&s, 2); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if of, ok := strings.CutSuffix(c.name, mistaken); ok && (s.Believed != m.Profile || s.Model.Profile.Values()[of] != 2*m.Profile.Values()[of]) {
			t.Errorf("%s: policies believe %v of %v", c.name, s.Believed.Values()[of], s.Model.Profile.Values()[of])
		}
	}
}
