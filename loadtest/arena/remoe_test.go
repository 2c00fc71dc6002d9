package arena

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func remoeSettings() Remoe {
	return Remoe{
		Shapes: []string{"small"}, Platform: "kubernetes", Past: 40, Served: 3, Seed: 1, Seeds: 2, SLOs: []float64{2, 3}, Prices: []float64{3, 6}, Variants: true,
		Threads: 2, Progress: func(string, ...any) {},
	}
}

// A run has a line for each policy, objective and variation, and sets costs beside those of baselines.
func TestRemoe(t *testing.T) {
	r, err := RunRemoe(t.Context(), remoeSettings())
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{}
	for _, l := range r.Lines {
		parts[l.Part]++
		if l.String() == "" || l.Part == partSLO && (l.Cost <= 0 || l.Cold <= l.Cost || l.GBs <= 0) {
			t.Errorf("%+v", l)
		}
	}
	for part, want := range map[string]int{
		partPrediction: 12, partCoverage: 3, partSLO: 2 * 10, partPrice: 2 * 7, partLengths: 4 * 7, partThreads: 5 * 7, partFused: 7, partPrinted: 7, partPlatform: 2 * 7,
	} {
		if parts[part] != 2*want {
			t.Errorf("%s has %d lines of two seeds, want %d", part, parts[part], 2*want)
		}
	}
	if len(r.Changes) == 0 {
		t.Fatal("nothing is compared")
	}
	for _, c := range r.Changes {
		if c.Seeds != 2 || !(c.Low <= c.Change && c.Change <= c.High && c.Best > -1) || !strings.Contains(c.String(), c.Against) {
			t.Errorf("%+v", c)
		}
	}
	if len(r.Gaps) == 0 || len(r.Figures) != 11 {
		t.Errorf("%d gaps, %d figures", len(r.Gaps), len(r.Figures))
	}
	for _, f := range r.Figures {
		for _, line := range f.Series {
			if len(line.Y) == 0 || len(line.X) != len(line.Y) || slices.ContainsFunc(line.Y, func(y float64) bool { return !(y >= 0) }) {
				t.Errorf("figure %s: %+v", f.Figure, line)
			}
		}
		if f.Figure == "prices" && (!slices.IsSorted(f.Series[0].X) || !strings.Contains(f.Words, "remoe costs less than mix at")) {
			t.Errorf("%+v", f)
		}
	}
	for _, g := range r.Gaps {
		if sum := g.Prediction + g.WorstCase + g.Relaxation + g.Replicas + g.Selection; math.Abs(sum-g.Whole) > 1e-9 || g.String() == "" {
			t.Errorf("%+v sums to %v", g, sum)
		}
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || strings.Count(string(page), "<figure>") != 11 || strings.Count(string(page), "<svg") != 11 {
		t.Errorf("%d figures in the page: %v", strings.Count(string(page), "<figure>"), err)
	}
	var b bytes.Buffer
	if err := asJSON(r)(&b); err != nil || !strings.Contains(b.String(), `"slo_miss_ratio"`) {
		t.Errorf("%v", err)
	}
}

func TestRemoeRefused(t *testing.T) {
	for want, spoil := range map[string]func(*Remoe){
		"no shape is named":              func(s *Remoe) { s.Shapes = nil },
		`no shape "big"`:                 func(s *Remoe) { s.Shapes = []string{"big"} },
		`shape "small" is named twice`:   func(s *Remoe) { s.Shapes = []string{"small", "small"} },
		"2 prompts of the past":          func(s *Remoe) { s.Past = 2 },
		"0 seeds are asked for":          func(s *Remoe) { s.Seeds = 0 },
		"no objective or no price":       func(s *Remoe) { s.SLOs = nil },
		"is 0 times another":             func(s *Remoe) { s.Prices = []float64{0} },
		`policy "ods" is unknown`:        func(s *Remoe) { s.Policies = []string{"ods"} },
		`no platform and no file "moon"`: func(s *Remoe) { s.Platform = "moon" },
	} {
		s := remoeSettings()
		spoil(&s)
		if _, err := RunRemoe(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
