package arena

import (
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

func offloadSettings() Offload {
	return Offload{
		Shapes: []string{"phi-3.5-moe"}, Budgets: []float64{6, 12}, Seed: 1, Seeds: 2, Distance: 3, Capacity: 100,
		Texts:   offload.Texts{Before: 4, Served: 2, Prompt: 8, Answer: 6, Domains: 2},
		Routing: routing.DemoStates(), Routings: OffloadRoutings(), Threads: 2, Progress: func(string, ...any) {},
	}
}

// All policies run with each budget and seed, our claims have all baselines, and the report is
// written.
func TestOffload(t *testing.T) {
	t.Parallel()
	r, err := RunOffload(t.Context(), offloadSettings())
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * 2 * len(append(offload.Policies(), offload.Asynchronous()...)); len(r.Lines) != want {
		t.Errorf("%d lines, want %d", len(r.Lines), want)
	}
	if want := 2 * 4 * (3 + 1); len(r.Claims) != want {
		t.Errorf("%d claims, want %d", len(r.Claims), want)
	}
	for _, l := range r.Lines {
		if l.Floor <= 0 || l.TPOT <= 0 || l.Hits < 0 || l.Hits > 1 || l.Policy == offload.Held && l.Hits != 1 {
			t.Errorf("%+v", l)
		}
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.json", "lines.csv", "claims.csv", "gaps.csv", "prefetching.csv", "tables.md", "report.html"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".csv") {
			if _, err := csv.NewReader(strings.NewReader(string(data))).ReadAll(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if name == "tables.md" && (!strings.Contains(string(data), "| promoe |") || strings.Contains(string(data), "NaN")) {
			t.Errorf("%s", data)
		}
		if name == "report.html" && !strings.Contains(string(data), "<svg") {
			t.Error("the page has no figure")
		}
	}
}

// The variants are there as well.
func TestOffloadVariants(t *testing.T) {
	if testkit.Race {
		t.Skip("TestOffload computes side by side in the same way")
	}
	t.Parallel()
	s := offloadSettings()
	s.Seeds, s.Variants, s.Budgets = 1, true, []float64{12}
	s.Texts = offload.Texts{Before: 3, Served: 1, Prompt: 4, Answer: 3, Domains: 2}
	s.Online = []OnlineTrace{{Name: "few", Requests: []trace.Request{{Context: 3, Generated: 2}, {At: 1e9, Context: 1, Generated: 4}}}}
	r, err := RunOffload(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Online) != 7 || len(r.Online[0].Latency) != 2 || len(r.Entropies) == 0 {
		t.Errorf("%+v, %d entropies", r.Online, len(r.Entropies))
	}
	figures, err := r.figures()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"figure 1b", "figure 3a", "3b, 3c", "figure 4", "figure 8", "figure 9", "figure 10", "figure 11", "12a", "12b", "figure 13", "14a", "14b", "figure 15", "figure 16"} {
		if !slices.ContainsFunc(figures, func(f figure) bool { return strings.Contains(f.Words, want) }) {
			t.Errorf("%s is not drawn", want)
		}
	}
	parts, kinds := map[string]bool{}, map[string]bool{}
	for _, l := range r.Lines {
		parts[l.Part], kinds[l.Routing] = true, true
	}
	for _, part := range []string{partBudget, partHalves, partPatterns, partOrders, partDistance, partCapacity, partBatch, partShared, partBelow, partPrompts, partConstants, partOnline} {
		if !parts[part] {
			t.Errorf("part %q is not there", part)
		}
	}
	together := map[string]float64{}
	for _, b := range r.Bounds {
		together[b.Routing] = max(together[b.Routing], b.Batch)
	}
	if len(kinds) != 4 || len(together) != 2 || together[routingFitted] != 32 || together[routingUnpredictable] != 32 {
		t.Errorf("routing %v, bounds of %v sequences", kinds, together)
	}
}

func TestOffloadRefused(t *testing.T) {
	for want, change := range map[string]func(*Offload){
		"no shape is named":                          func(s *Offload) { s.Shapes = nil },
		"no budget is named":                         func(s *Offload) { s.Budgets = nil },
		"0 seeds":                                    func(s *Offload) { s.Seeds = 0 },
		`routings are ["odd"]`:                       func(s *Offload) { s.Routings = []string{"odd"} },
		"recorded needs a recording":                 func(s *Offload) { s.Routings = []string{"recorded"} },
		"0 maps":                                     func(s *Offload) { s.Capacity = 0 },
		`there is no shape "x"`:                      func(s *Offload) { s.Shapes = []string{"x"} },
		"named twice":                                func(s *Offload) { s.Shapes = []string{"phi-3.5-moe", "phi-3.5-moe"} },
		"has 32 layers: it must be 1 to 31":          func(s *Offload) { s.Distance = 32 },
		"0.50 GB on 6 hosts holds no expert of phi-": func(s *Offload) { s.Budgets = []float64{0.5} },
		"prompts of 0 tokens":                        func(s *Offload) { s.Texts.Prompt = 0 },
		"share of the token":                         func(s *Offload) { s.Routing.Token = 2 },
	} {
		s := offloadSettings()
		change(&s)
		if _, err := RunOffload(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := RunOffload(ctx, offloadSettings()); err == nil {
		t.Error("it runs though it is stopped")
	}
}
