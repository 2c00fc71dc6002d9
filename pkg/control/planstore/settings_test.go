package planstore

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestSettings(t *testing.T) {
	kv := bucket(t)
	read := func() plan.Settings {
		t.Helper()
		s, _, err := readSettings(t.Context(), kv)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	change := func(by plan.Settings) {
		t.Helper()
		if s, err := ChangeSettings(t.Context(), kv, by); err != nil || s != read() {
			t.Fatalf("%v, %v; want %v", s, err, read())
		}
	}
	if s := read(); s != plan.DefaultSettings() {
		t.Errorf("%v without any", s)
	}
	change(plan.Settings{Grouping: plan.ByExpert})
	change(plan.Settings{Replicas: 3})
	want := plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: 3}
	if s := read(); s != want {
		t.Errorf("%v, want %v", s, want)
	}
	if _, err := ChangeSettings(t.Context(), kv, plan.Settings{Policy: "magic"}); err == nil || read() != want {
		t.Errorf("%v; now %v", err, read())
	}
	erase(t, kv, SettingsKey)
	change(plan.Settings{Replicas: 2})
}

// What is no settings is refused by name, and a change mends it.
func TestIllegalSettings(t *testing.T) {
	kv := bucket(t)
	for says, spoil := range map[string]func(){
		"decoding":       func() { putBytes(t, kv, SettingsKey, "\xff") },
		`policy "magic"`: func() { put(t, kv, SettingsKey, &pb.PlanSettings{Policy: "magic"}) },
		`no grouping ""`: func() { put(t, kv, SettingsKey, &pb.PlanSettings{Policy: "static"}) },
		"replicas is 0":  func() { put(t, kv, SettingsKey, &pb.PlanSettings{Policy: "static", Grouping: "expert"}) },
		"replicas is 99999": func() {
			put(t, kv, SettingsKey, &pb.PlanSettings{Policy: "static", Grouping: "expert", Replicas: 99999})
		},
	} {
		spoil()
		if _, _, err := readSettings(t.Context(), kv); !errors.Is(err, ErrIllegalSettings) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		s, err := ChangeSettings(t.Context(), kv, plan.Settings{Replicas: 2})
		if want := plan.DefaultSettings().With(plan.Settings{Replicas: 2}); err != nil || s != want {
			t.Errorf("%v, %v", s, err)
		}
	}
}

// Garbage is replaced, and nothing that somebody has set, however wrong it is.
func TestMendSettings(t *testing.T) {
	r := store(t)
	mended := plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: 4}
	for name, tc := range map[string]struct {
		spoil func()
		want  plan.Settings
	}{
		"garbage":       {func() { putBytes(t, r.kv, SettingsKey, `{"stream":"PROMPTS","seq":7}`) }, mended},
		"of others":     {func() { put(t, r.kv, SettingsKey, &pb.PlanSettings{Policy: "magic"}) }, plan.Settings{}},
		"legal ones":    {func() { put(t, r.kv, SettingsKey, plan.DefaultSettings().Proto()) }, plan.DefaultSettings()},
		"none any more": {func() { erase(t, r.kv, SettingsKey) }, plan.DefaultSettings()},
	} {
		tc.spoil()
		if err := r.MendSettings(t.Context(), mended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s, _, err := r.Settings(t.Context()); s != tc.want || (err != nil) != (tc.want == plan.Settings{}) {
			t.Errorf("%s: now %v, %v", name, s, err)
		}
	}
}

// Changes at the same time are all made.
func TestSettingsConflict(t *testing.T) {
	kv := bucket(t)
	var changing sync.WaitGroup
	for _, by := range []plan.Settings{{Grouping: plan.ByExpert}, {Replicas: 7}} {
		changing.Go(func() {
			if _, err := ChangeSettings(t.Context(), kv, by); err != nil {
				t.Error(err)
			}
		})
	}
	changing.Wait()
	s, _, err := readSettings(t.Context(), kv)
	if want := (plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: 7}); err != nil || s != want {
		t.Errorf("%v, %v; want %v", s, err, want)
	}
}
