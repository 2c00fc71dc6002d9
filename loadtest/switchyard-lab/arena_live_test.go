package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

func TestWithinTenth(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		want      string
	}{{-0.1, 0.1, "yes"}, {0, 0.05, "yes"}, {0.11, 0.2, "no"}, {-0.3, -0.11, "no"}, {-0.05, 0.2, "open"}, {-0.2, 0.3, "open"}} {
		if got := withinTenth(tc.low, tc.high); got != tc.want {
			t.Errorf("%v to %v: %s, want %s", tc.low, tc.high, got, tc.want)
		}
	}
}

// Policies are compared repeat by repeat.
func TestChanges(t *testing.T) {
	line := func(repeat int, policy string, mean float64) liveLine {
		return liveLine{Repeat: repeat, Line: replay.Line{Line: sim.Line{Policy: policy, Mean: mean}}}
	}
	all := changesOf([]string{"static", "moeless+"}, []liveLine{line(1, "static", 10), line(1, "moeless+", 8), line(2, "moeless+", 16), line(2, "static", 20)})
	if len(all) != 1 || all[0].What != "layer time" || all[0].Repeats != 2 || fmt.Sprintf("%.3f %.3f %.3f", all[0].Change, all[0].Low, all[0].High) != "-0.200 -0.200 -0.200" {
		t.Errorf("%+v", all)
	}
}

// The live arena prints a line for each repeat and policy, and how far the simulator is from each figure.
// Not in parallel: a consumer group for each of 128 experts, on two hosts, leaves little for other pipelines beside it under the race detector.
func TestLiveArena(t *testing.T) {
	if testkit.Race {
		t.Skip("TestElasticity has all of its goroutines")
	}
	dir := t.TempDir()
	text, trace, out := filepath.Join(dir, "a.txt"), filepath.Join(dir, "trace.csv"), filepath.Join(dir, "out")
	rows := "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	for i := range 8 {
		rows += fmt.Sprintf("2023-11-16 18:00:0%d.0000000,24,4\n", i)
	}
	for name, body := range map[string]string{text: strings.Repeat("Once upon a time there was a little girl. ", 100), trace: rows} {
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := invoke("", "arena", "--suite", "moeless", "--back-end", "live", "--trace", trace, "--texts", text, "--out", out, "--json",
		"--hosts", "2", "--slice", "8s", "--every", "1", "--shrink", "2", "--speed", "16", "--repeats", "1", "--policies", "static")
	if got.Code != cli.ExitDone {
		t.Fatalf("%+v", got)
	}
	policies, verdicts := 0, 0
	for line := range strings.Lines(got.Out) {
		var one struct {
			Policy string  `json:"policy"`
			Mean   float64 `json:"layer_ms_mean"`
			Tokens int     `json:"tokens"`
			What   string  `json:"what"`
			Within string  `json:"within_10_percent"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Policy != "static" {
			t.Errorf("%s: %v", line, err)
		}
		if one.Mean > 0 && one.Tokens > 8*12 {
			policies++
		}
		if one.What != "" && one.Within == "open" { // one repeat has no interval
			verdicts++
		}
	}
	if policies != 1 || verdicts != 3 {
		t.Errorf("%d lines, %d verdicts:\n%s", policies, verdicts, got.Out)
	}
	if _, err := os.Stat(filepath.Join(out, "live.json")); err != nil {
		t.Error(err)
	}
}
