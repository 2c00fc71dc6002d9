package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A store is built of texts and of a recording, asked, and given to a plan; ways to foretell are
// measured.
func TestSPS(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that build stores have tests of their goroutines")
	}
	story, code := texts(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	small := strings.Fields("--threads 1 --alpha 2 --beta 3 --chars 100")
	got := invoke("", append([]string{"sps", "build", "--json", "--out", in("s"), "--prompts", story, "--past", "8"}, small...)...)
	var b built
	if err := json.Unmarshal([]byte(got.Out), &b); err != nil || got.Code != cli.ExitDone || b.Prompts == 0 || b.Layers != 8 || b.Experts != 16 {
		t.Fatalf("%+v, %v", got, err)
	}
	store, err := mapfile.ReadPrompts(in("s"))
	if err != nil || store.Digest() != b.Digest || store.Model != b.Model {
		t.Fatalf("%v", err)
	}
	got = invoke("", "sps", "query", "--json", "--store", in("s"), "--prompt", "Once upon a time")
	var q queried
	if err := json.Unmarshal([]byte(got.Out), &q); err != nil || got.Code != cli.ExitDone || len(q.Rows) != 8 || len(q.Rows[0]) != 16 || len(q.Similar) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for l, row := range q.Rows {
		sum := 0.0
		for _, n := range row {
			sum += n
		}
		if off := sum - float64(2*q.Tokens); off > 0.01 || off < -0.01 {
			t.Errorf("layer %d has %v rows of %d tokens", l, sum, q.Tokens)
		}
	}
	if got := invoke("", "sps", "query", "--store", in("s"), "--prompts", story, "--past", "2"); got.Code != cli.ExitDone || !strings.Contains(got.Out, "layer 7") {
		t.Errorf("%+v", got)
	}
	if got := invoke("", "plan", "solve", "--shape", "demo", "--store", in("s"), "--prompt", "Once upon a time", "--max-tokens", "9", "--slo-ttft", "60s", "--slo-tpot", "1s"); got.Code != cli.ExitDone || !strings.Contains(got.Out, "similar prompts") {
		t.Errorf("%+v", got)
	}
	if got := invoke("", "plan", "solve", "--shape", "small", "--store", in("s"), "--prompt", "a", "--slo-ttft", "60s", "--slo-tpot", "1s"); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "build a store with a model of that shape") {
		t.Errorf("%+v", got)
	}
	got = invoke("", append([]string{"sps", "eval", "--prompts", "a=" + code, "--past", "4", "--test", "2"}, small...)...)
	if got.Code != cli.ExitDone || !strings.Contains(got.Out, "sps+fitted") || !strings.Contains(got.Out, "correlate by") {
		t.Errorf("%+v", got)
	}
}

// A recording's prompts make a store as well.
func TestSPSOfRecording(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that build stores have tests of their goroutines")
	}
	story, _ := texts(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if got := invoke("", "record", "--no-inputs", "--out", in("r"), "--tokens", "100", "--answer-tokens", "1", "--texts", story); got.Code != cli.ExitDone {
		t.Fatalf("%+v", got)
	}
	if got := invoke("", "sps", "build", "--out", in("s"), "--recording", in("r")); got.Code != cli.ExitDone || !strings.Contains(got.Out, "prompts of model") {
		t.Errorf("%+v", got)
	}
}

// Files and settings that cannot be used are named, with what to do.
func TestSPSRefuses(t *testing.T) {
	t.Parallel()
	story, _ := texts(t)
	for _, tt := range testkit.Some([]struct{ args, want string }{
		{"build --out OUT", "name either texts"},
		{"build --out OUT --prompts STORY --recording x", "name either texts"},
		{"build --out OUT --prompts none", "no such file"},
		{"build --out OUT --recording none", "no such file"},
		{"build --out OUT --prompts STORY --alpha 5 --beta 5", "set β above α"},
		{"build --out OUT --prompts STORY --chars 0", "characters"},
		{"build --out none/x --prompts STORY", "takes no files"},
		{"query --store none --prompt a", "no such file"},
		{"query --store STORY --prompt a", "switchyard sps build makes one"},
		{"eval --prompts STORY --test 0", "--test is 0"},
		{"eval", "name a file of texts"},
	}) {
		args := strings.Fields(strings.NewReplacer("OUT", filepath.Join(t.TempDir(), "s"), "STORY", story).Replace(tt.args))
		if got := invoke("", append([]string{"sps"}, args...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// An expert is measured, and plans are made by that.
func TestProfile(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("loadtest/speeds has a test of its goroutines")
	}
	out := filepath.Join(t.TempDir(), "curves.json")
	got := invoke("", "profile", "--synthetic", "tiny", "--memory", "512,100000000", "--rows", "1", "--time", "1ms", "--out", out)
	if got.Code != cli.ExitDone || !strings.Contains(got.Out, "extrapolated") || !strings.Contains(got.Out, "no fit") {
		t.Fatalf("%+v", got)
	}
	if got := solve("--curves", out); got.Code != cli.ExitDone {
		t.Errorf("%+v", got)
	}
	for args, want := range map[string]string{"--memory 2,1": "ascend", "--memory x": "name numbers as", "--rows 0": "rows are [0]", "--memory-per-cpu 0": "must be above 0"} {
		if got := invoke("", append(strings.Fields("profile --synthetic tiny --out "+out), strings.Fields(args)...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
