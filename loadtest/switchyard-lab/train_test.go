package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/loadtest/train"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// texts are files of two domains.
func texts(t *testing.T) (story, code string) {
	t.Helper()
	dir := t.TempDir()
	story, code = filepath.Join(dir, "story.txt"), filepath.Join(dir, "code.jsonl")
	documents := strings.Repeat("Once upon a time there was a cat.\n<|endoftext|>\nLily had a red ball.\n<|endoftext|>\n", 5)
	lines := strings.Repeat(`{"text":"func main() { return 1 }"}`+"\n", 10)
	for path, text := range map[string]string{story: documents, code: lines} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return story, code
}

// What is recorded trains, and texts train by themselves.
func TestRecordAndTrain(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that record and train have tests of their goroutines")
	}
	story, code := texts(t)
	recorded, out := filepath.Join(t.TempDir(), "r"), filepath.Join(t.TempDir(), "w")
	got := invoke("", "record", "--json", "--out", recorded, "--tokens", "100", "--answer-tokens", "2", "--texts", story, "go="+code)
	var sum record.Summary
	if err := json.Unmarshal([]byte(got.Out), &sum); err != nil || got.Code != 0 || sum.Domains["story"] == 0 || sum.Domains["go"] == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	quick := []string{"train-predictor", "--json", "--distance", "1", "--passes", "1", "--adapters", "0", "--threads", "1", "--out", out}
	for _, args := range [][]string{{"--recording", recorded}, {"--tokens", "100", "--answer-tokens", "0", "--texts", story, "--texts", code}} {
		got := invoke("", append(quick, args...)...)
		var report train.Report
		if err := json.Unmarshal([]byte(got.Out), &report); err != nil || got.Code != 0 || len(report.Layers) != 7*len(report.Methods) {
			t.Fatalf("%v: %+v, %v", args, got, err)
		}
	}
	left, err := filepath.Glob(out + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A recording that cannot be divided is unusable input.
func TestTooFewSequences(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that record and train have tests of their goroutines")
	}
	story, recorded := filepath.Join(t.TempDir(), "story.txt"), filepath.Join(t.TempDir(), "r")
	if err := os.WriteFile(story, []byte("Once upon a time there was a cat."), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := invoke("", "record", "--out", recorded, "--tokens", "20", "--answer-tokens", "0", "--texts", story); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	got := invoke("", "train-predictor", "--out", filepath.Join(t.TempDir(), "w"), "--recording", recorded)
	if got.Code != cli.ExitUsage || !strings.Contains(got.Err, "the recording has too few sequences") {
		t.Errorf("%+v", got)
	}
}

func TestRecordUsage(t *testing.T) {
	t.Parallel()
	story, _ := texts(t)
	garbage := filepath.Join(t.TempDir(), "r")
	if err := os.WriteFile(garbage, []byte("no recording"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range testkit.Some([]struct {
		name, want string
		args       []string
	}{
		{"no out", "--out", []string{"record", "--texts", story}},
		{"no texts", "there are no texts", []string{"record", "--out", "/nonexistent/r"}},
		{"beyond the model", "at most 512 positions", []string{"record", "--out", "/nonexistent/r", "--texts", story, "--prompt-tokens", "600"}},
		{"texts and a recording", "exclude", []string{"train-predictor", "--out", "/nonexistent/w", "--recording", garbage, "--texts", story}},
		{"nowhere to record", "--out: the folder takes no files", []string{"record", "--out", "/nonexistent/r", "--texts", story}},
		{"nowhere to train", "--out: the folder takes no files", []string{"train-predictor", "--out", "/nonexistent/w", "--texts", story}},
		{"a domain twice", "two files are of domain", []string{"record", "--out", garbage, "--texts", story, "--texts", story}},
		{"no recording", "reading safetensors file", []string{"train-predictor", "--out", "/nonexistent/w", "--recording", garbage}},
	}) {
		t.Run(tt.name, func(t *testing.T) {
			if got := invoke("", tt.args...); got.Code != 2 || !strings.Contains(got.Err, tt.want) {
				t.Errorf("got %+v, want code 2 and %q", got, tt.want)
			}
		})
	}
}
