package arena

import (
	"bytes"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
)

func boodsSettings() BOODS {
	return BOODS{
		Shapes: []string{"small"}, Platform: "lambda", Sequences: 120, Tokens: 256, Learn: 1, Test: 2, Rounds: 2, Pairs: 20, Limit: 1.2309, Seed: 1, Seeds: 2,
		Threads: 2, Progress: func(string, ...any) {},
	}
}

// A run has a line for each method, mode, limit, acquisition and deployment, and compares these.
func TestBOODS(t *testing.T) {
	r, err := RunBOODS(t.Context(), boodsSettings())
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{}
	for _, l := range r.Lines {
		parts[l.Part]++
		if l.String() == "" || l.Part == partFigure13 && l.Policy != "remoe" && (l.Cost <= 0 || l.Throughput <= 0 || l.Latency <= 0) {
			t.Errorf("%+v", l)
		}
		if l.Part == partTargets && l.Policy == "exact" && !l.Feasible {
			t.Errorf("%+v", l)
		}
	}
	for part, want := range map[string]int{partFigure10: 9, partFigure11: 2 * 3, partTargets: 9 * 4, partFigure12: len(bo.Acquisitions), partFigure13: len(BOODSPolicies()), partAssumed: len(assumptions())} {
		if parts[part] != 2*want {
			t.Errorf("%s has %d lines of two seeds, want %d", part, parts[part], 2*want)
		}
	}
	if len(r.Changes) == 0 {
		t.Fatal("nothing is compared")
	}
	for _, c := range r.Changes {
		if c.Seeds != 2 || !(c.Low <= c.Cost && c.Cost <= c.High) || !strings.Contains(c.String(), c.Against) {
			t.Errorf("%+v", c)
		}
	}
	if len(r.Searches) != len(bo.Acquisitions) {
		t.Errorf("%d searches are summed up", len(r.Searches))
	}
	for _, s := range r.Searches {
		if s.Seeds != 2 || s.Ratio <= 0 || s.Known <= 0 || s.Seconds <= 0 || s.Rounds > 2 || !strings.Contains(s.String(), s.Acquisition) {
			t.Errorf("%+v", s)
		}
	}
	if err := r.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := asJSON(r)(&b); err != nil || !strings.Contains(b.String(), `"prediction_error"`) {
		t.Errorf("%v", err)
	}
}

// What is assumed of searches is swept where it is asked for.
func TestBOODSSettings(t *testing.T) {
	s := boodsSettings()
	s.Policies, s.Seeds, s.Rounds, s.Pairs = []string{boSettings}, 1, 1, 5
	r, err := RunBOODS(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range r.Lines {
		if l.Part != partFigure12 && l.Part != partFigure13 {
			t.Errorf("%+v was not asked for", l)
		}
		if l.Part == partFigure12 {
			n++
			if l.Ratio <= 0 || l.KnownRatio <= 0 {
				t.Errorf("%+v", l)
			}
		}
	}
	if n != 13 {
		t.Errorf("%d settings were tried", n)
	}
}

func TestBOODSRefused(t *testing.T) {
	for want, spoil := range map[string]func(*BOODS){
		"no shape is named":              func(s *BOODS) { s.Shapes = nil },
		`no shape "big"`:                 func(s *BOODS) { s.Shapes = []string{"big"} },
		`shape "small" is named twice`:   func(s *BOODS) { s.Shapes = []string{"small", "small"} },
		"batches of 1 tokens":            func(s *BOODS) { s.Tokens = 1 },
		"0 seeds":                        func(s *BOODS) { s.Seeds = 0 },
		"the limit is 0 times":           func(s *BOODS) { s.Limit = 0 },
		`policy "eplb" is unknown`:       func(s *BOODS) { s.Policies = []string{"eplb"} },
		`no platform and no file "moon"`: func(s *BOODS) { s.Platform = "moon" },
		"record 100 sequences or more":   func(s *BOODS) { s.Sequences = 20 },
		"0 sequences are asked for":      func(s *BOODS) { s.Sequences = 0 },
		"0 pairs are changed":            func(s *BOODS) { s.Pairs = 0 },
	} {
		s := boodsSettings()
		s.Seeds = 1
		spoil(&s)
		if _, err := RunBOODS(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
