package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// solve asks for a plan of the smallest shape.
func solve(more ...string) result {
	return invoke("", append([]string{"plan", "solve", "--shape", "small", "--prompt", "Once upon a time", "--slo-ttft", "60s", "--slo-tpot", "1s"}, more...)...)
}

// A plan is printed with what led to it; one for an SLO that cannot be kept is exit code 3, with times
// that can be asked for.
func TestPlanSolve(t *testing.T) {
	t.Parallel()
	got := solve("--json", "--exact")
	var s solved
	if err := json.Unmarshal([]byte(got.Out), &s); err != nil || got.Code != cli.ExitDone || !s.Feasible || s.Exact == nil || len(s.Layers) != 2 || s.Prompt < 4 || s.Output != 199 || s.Cost <= 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got := solve("--explain", "--exact"); got.Code != cli.ExitDone || !strings.Contains(got.Out, "algorithm 2") || !strings.Contains(got.Out, "fetch") || !strings.Contains(got.Out, "of all plans") {
		t.Errorf("%+v", got)
	}
	words := filepath.Join(t.TempDir(), "vocab.txt")
	if err := os.WriteFile(words, []byte("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nonce\nupon\na\ntime\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = solved{}
	if got := solve("--json", "--tokenizer", words); json.Unmarshal([]byte(got.Out), &s) != nil || s.Counted != words || s.Prompt < 4 || s.Prompt > 6 {
		t.Errorf("%+v", got)
	}
	got = solve("--json", "--slo-ttft", "1ms", "--slo-tpot", "1us")
	s = solved{}
	if err := json.Unmarshal([]byte(got.Out), &s); err != nil || got.Code != cli.ExitInfeasible || s.Feasible || s.Constraint == "" || s.NearestTTFT <= 1e-3 || !strings.Contains(got.Err, "constraint 10") {
		t.Fatalf("%+v, %v", got, err)
	}
	nearest := func(seconds float64) string {
		text, err := json.Marshal(seconds * (1 + 1e-6)) // flags are whole nanoseconds
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "s"
	}
	if got := solve("--slo-ttft", nearest(s.NearestTTFT), "--slo-tpot", nearest(s.NearestTPOT)); got.Code != cli.ExitDone {
		t.Errorf("what can be kept is refused: %+v", got)
	}
}

// What cannot be planned is named, with the cure.
func TestPlanSolveRefuses(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range testkit.Some([]struct{ Args, Want string }{
		{"--shape gpt9", "there is no shape"},
		{"--max-tokens 0", "--max-tokens is 0"},
		{"--max-tokens 2000", "has room for 1024 together"},
		{"--slo-ttft 0s", "both must be above 0"},
		{"--memory 400,300", "sizes are above 0 and ascend"},
		{"--memory 1", "add a larger size"},
		{"--memory 1:2", "a range has"},
		{"--main-memory 0", "size 0 of the main model's host"},
		{"--replicas 0", "set it to 1 to 64"},
		{"--payload 1", "raise the payload to one row"},
		{"--gpu-price 0", "it must be above 0"},
		{"--platform moon", "there is no platform"},
		{"--curves BAD", "no file of switchyard profile"},
		{"--store BAD", "switchyard sps build makes one"},
		{"--policy ods", "policy"},
		{"--tokenizer BAD", "--tokenizer: "},
	}) {
		got := solve(strings.Fields(strings.ReplaceAll(tt.Args, "BAD", bad))...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Err, tt.Want) {
			t.Errorf("%s: %+v", tt.Args, got)
		}
	}
	if got := invoke("", "plan", "solve", "--shape", "small", "--prompt", "", "--slo-ttft", "1s", "--slo-tpot", "1s"); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "has no tokens") {
		t.Errorf("%+v", got)
	}
}
