package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// Texts are recorded, united experts distilled from that, and brownouts with them measured.
func TestDistillAndEval(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that distil and compute have tests of their goroutines")
	}
	dir := t.TempDir()
	model := filepath.Join("..", "..", "models", "demo")
	text := filepath.Join(dir, "a.txt")
	var b strings.Builder
	for _, line := range []string{"Once upon a time", "There was a dog", "The sun was hot", "Lily saw a bird", "He ran to the tree", "They were happy", "The end of it", "A big red ball", "She said no", "It was late"} {
		b.WriteString(strings.Repeat(line+" and so on. ", 6) + "\n<|endoftext|>\n")
	}
	if err := os.WriteFile(text, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	rec, united := filepath.Join(dir, "rec.st"), filepath.Join(dir, "united")
	if got := invoke("", "record", "--model", model, "--out", rec, "--texts", text, "--tokens", "600", "--prompt-tokens", "32", "--answer-tokens", "2"); got.Code != cli.ExitDone {
		t.Fatalf("%+v", got)
	}
	got := invoke("", "distill", model, "--recording", rec, "--out", united, "--way", "8", "--rows", "60", "--passes", "1", "--through", "300", "--json")
	var made Distilled
	if err := json.Unmarshal([]byte(got.Out), &made); got.Code != cli.ExitDone || err != nil || len(made.Ways[8]) != 16 || made.Loss != "routed" || made.Data == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	got = invoke("", "eval", "--model", model, "--recording", rec, "--united", united, "--way", "8,full,topk-1,reroute", "--threshold", "0:1:0.5", "--batch", "2",
		"--sequences", "2", "--length", "12", "--choices", "2", "--json")
	var ways []string
	for line := range strings.Lines(got.Out) {
		var l struct {
			Way       string  `json:"way"`
			Threshold float64 `json:"threshold"`
			Rise      float64 `json:"perplexity_rise"`
			Accesses  float64 `json:"accesses_ratio"`
			Degraded  float64 `json:"degraded_ratio"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		ways = append(ways, l.Way)
		if whole := l.Threshold == 1; whole != (l.Rise == 0) || whole != (l.Degraded == 0) || whole && l.Accesses != 1 || l.Accesses > 1 {
			t.Errorf("%+v", l)
		}
	}
	if got.Code != cli.ExitDone || !slices.Equal(ways, []string{"8", "8", "8", "full", "full", "full", "topk-1", "topk-1", "topk-1", "reroute", "reroute", "reroute"}) {
		t.Errorf("%+v", got)
	}
	task := filepath.Join(dir, "piqa.json")
	body := `[{"instruction": "x to the question: The dog\n\nSolution1: ran home Solution2: is blue\n\nAnswer format: ", "answer": "solution1"},
		{"instruction": "x to the question: Lily saw\n\nSolution1: a stone flew Solution2: a bird\n\nAnswer format: ", "answer": "solution2"}]`
	if err := os.WriteFile(task, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	short := []string{"eval", "--model", model, "--recording", rec, "--way", "full", "--batch", "2", "--sequences", "1", "--length", "12", "--choices", "0"}
	if got := invoke("", append(short, "--threshold", "1", "--task", task, "--shots", "1")...); got.Code != cli.ExitDone || !strings.Contains(got.Out, "piqa: ") || !strings.Contains(got.Out, "of 1 right, chance being 0.500") {
		t.Errorf("%+v", got)
	}
	for want, args := range map[string][]string{
		"after 6 that are answered are wanted":                  {"--way", "full", "--task", task, "--shots", "6"},
		"this is no task":                                       {"--way", "full", "--task", text},
		"has none of way 2; make them with switchyard distill":  {"--way", "2", "--united", united},
		"there are no united experts of it; name their folder":  {"--way", "2"},
		`way "1": a way is a number from 2`:                     {"--way", "1"},
		`--threshold "1.5": this brownout cannot be`:            {"--threshold", "1.5"},
		`--threshold "NaN"`:                                     {"--threshold", "NaN"},
		"it must rise by a step above 0":                        {"--threshold", "1:0:0.1"},
		"layer 9 is exempt, but the model has no experts there": {"--way", "full", "--exempt", "9"},
		"a batch has 0 sequences; it must be 1 to 4096":         {"--way", "full", "--batch", "0"},
	} {
		if got := invoke("", append([]string{"eval", "--model", model, "--recording", rec}, args...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
	other := goldens.Dir("qwen2_moe")
	for want, args := range map[string][]string{
		"way 17: a united expert stands in for": {"distill", model, "--way", "17"},
		"the recording is of the model with":    {"distill", other},
	} {
		if got := invoke("", append(args, "--recording", rec, "--out", united)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
}

// The suite brownout simulates, and refuses what it has no use for.
func TestArenaBrownout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trace, out := filepath.Join(dir, "trace.csv"), filepath.Join(dir, "out")
	if err := os.WriteFile(trace, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0000000,40,20\n2023-11-16 18:15:47.0000000,80,30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := func(more ...string) []string {
		return append([]string{"arena", "--suite", "brownout", "--trace", trace, "--out", out, "--seeds", "0", "--minutes", "0.05", "--json"}, more...)
	}
	got := invoke("", args()...)
	seen := map[string]int{}
	for line := range strings.Lines(got.Out) {
		var l struct{ Suite, Experiment, Policy, Shape string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Suite != "brownout" || l.Shape != "qwen1.5-moe" {
			t.Fatalf("%s: %v", line, err)
		}
		seen[l.Experiment]++
	}
	if got.Code != cli.ExitDone || seen["throughput"] != 112 || len(seen) != 1 {
		t.Errorf("exit %d, lines %v: %s", got.Code, seen, got.Err)
	}
	for _, name := range []string{"report.json", "lines.csv", "traces.csv"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	for want, more := range map[string][]string{
		"it must be above 0, and 60 at most": {"--minutes", "0"},
		"--united is missing":                {"--back-end", "live"},
		"streams is 65":                      {"--back-end", "live", "--united", dir, "--streams", "65"},
		"--texts is missing":                 {"--back-end", "live", "--united", dir},
		"unknown flag --policies":            {"--policies", "static"},
		"unknown flag --maps":                {"--maps", "5"},
	} {
		if got := invoke("", args(more...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%v: %+v, want %q", more, got, want)
		}
	}
}
