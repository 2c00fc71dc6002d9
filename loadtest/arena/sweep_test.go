package arena

import (
	"reflect"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
)

// Each assumed constant is run with each factor, and the extremes are those of the lines.
func TestSweep(t *testing.T) {
	if testkit.Race {
		t.Skip("TestSeeds computes side by side in the same way")
	}
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

// Each number of each profile whose source says that it is assumed is among the constants, in the
// form of time that has a use for it; and so are the simulator's own.
func TestSweepsAllAssumed(t *testing.T) {
	for _, name := range profiles.Names() {
		of := map[string]bool{}
		var last *profiles.Profile
		for _, form := range []profiles.Time{profiles.Roofline, profiles.Printed} {
			p, err := profiles.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			p.Time, last = form, p
			for _, c := range constants(sim.Model{Profile: p}) {
				of[c.name] = true
			}
		}
		// The profile for people has a line for each number: its key, its value, its source.
		for line := range strings.Lines(last.String()) {
			key, source, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.Contains(source, "assumed") && (!of[key] || !of[key+mistaken]) {
				t.Errorf("%s: %s is assumed and not swept", name, key)
			}
			if strings.Contains(source, "taken to be") {
				t.Errorf("%s: %s is assumed and does not say so", name, key)
			}
		}
	}
}

// Each default of the simulator is changed by a constant, but for what the variants vary.
func TestSweepsDefaults(t *testing.T) {
	m, err := sim.Open("mixtral-8x7b")
	if err != nil {
		t.Fatal(err)
	}
	varied := map[string]bool{"CV": true} // figures 15 and 16
	for _, c := range constants(m) {
		before, after := reflect.ValueOf(sim.Defaults(m)), sim.Defaults(m)
		if err := c.set(&after, 2); err != nil {
			t.Fatal(err)
		}
		for i := range before.NumField() {
			if !reflect.DeepEqual(before.Field(i).Interface(), reflect.ValueOf(after).Field(i).Interface()) {
				varied[before.Type().Field(i).Name] = true
			}
		}
	}
	defaults := reflect.ValueOf(sim.Defaults(m))
	for i := range defaults.NumField() {
		f, v := defaults.Type().Field(i), defaults.Field(i)
		if k := f.Type.Kind(); (k == reflect.Float64 || k == reflect.Slice) && !v.IsZero() && !varied[f.Name] {
			t.Errorf("%s is %v and not swept", f.Name, v)
		}
	}
}
