package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// recordedKeys are a recording with keys of many short texts.
func recordedKeys(t *testing.T, in func(string) string) {
	t.Helper()
	words := []string{"cat", "dog", "ball", "sun", "tree", "red", "big", "old", "house", "boat", "fish", "moon"}
	var text strings.Builder
	for i := range 144 {
		text.WriteString("Once the " + words[i%12] + " saw a " + words[i/12] + "\n<|endoftext|>\n")
	}
	if err := os.WriteFile(in("texts.txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := invoke("", "record", "--features", "--no-inputs", "--out", in("r"), "--tokens", "100000", "--answer-tokens", "0", "--texts", in("texts.txt")); got.Code != cli.ExitDone {
		t.Fatalf("%+v", got)
	}
}

// A table is built of a recording, measured and tuned; a tuning that is asked for again goes on.
func TestBayes(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that count and tune start no goroutines")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	recordedKeys(t, in)
	of := []string{"--json", "--in", in("r"), "--table", in("t"), "--share", "0.8"}
	got := invoke("", append([]string{"bayes", "build"}, of...)...)
	var built builtTable
	if err := json.Unmarshal([]byte(got.Out), &built); err != nil || got.Code != cli.ExitDone || built.Samples != 116 || built.Pairs == 0 || len(built.Layers) != 8 || len(built.Digest) != 64 {
		t.Fatalf("%+v, %v", got, err)
	}
	got = invoke("", append([]string{"bayes", "eval"}, of...)...)
	if lines := strings.Split(strings.TrimSpace(got.Out), "\n"); got.Code != cli.ExitDone || len(lines) != 9 || !strings.Contains(lines[0], `"prediction_error":0.`) {
		t.Fatalf("%+v", got)
	}
	got = invoke("", append([]string{"bayes", "eval", "--token", "0"}, of...)...)
	if lines := strings.Split(strings.TrimSpace(got.Out), "\n"); got.Code != cli.ExitDone || len(lines) != 8 || !strings.Contains(lines[1], `"layer":1,"token":0,"rows":[`) {
		t.Errorf("%+v", got)
	}
	if got = invoke("", append([]string{"bayes", "eval", "--token", "99999"}, of...)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "ids of the model's vocabulary are 0 to 8191") {
		t.Errorf("%+v", got)
	}
	got = invoke("", "bayes", "build", "--json", "--first", "--in", in("r"), "--table", in("first"), "--share", "0.8")
	if err := json.Unmarshal([]byte(got.Out), &built); err != nil || got.Code != cli.ExitDone || built.TopK != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	tune := append([]string{"tune", "--tokens", "64", "--pairs", "20", "--acquisition", "random", "--rounds", "2"}, of...)
	got = invoke("", tune...)
	var tuned tunedTable
	if err := json.Unmarshal([]byte(got.Out), &tuned); err != nil || got.Code != cli.ExitDone || tuned.Rounds != 2 || tuned.Cost > tuned.Before || tuned.Cost <= 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	again := invoke("", tune...)
	var same tunedTable
	if err := json.Unmarshal([]byte(again.Out), &same); err != nil || same.Digest != tuned.Digest || same.Rounds != 2 {
		t.Fatalf("%+v, %v", again, err)
	}
	solvesBatches(t, in)
	for want, args := range map[string][]string{
		"--pairs: a search that cannot be: 0 pairs":         append(tune, "--pairs", "0"),
		"--in, of whose 144 sequences --share takes 15":     {"bayes", "build", "--in", in("r"), "--table", in("few"), "--share", "0.1"},
		"--table: the folder takes no files":                {"bayes", "build", "--in", in("r"), "--table", in("none/t")},
		"--bill: there is no platform and no file \"moon\"": {"bench", "--transfer", "--bill", "moon"},
		"--transfer fits its formulas to 4 or more":         {"bench", "--transfer", "--rows", "1,1,2,3"},
		"--bill-tokens is of --bill":                        {"bench", "--transfer", "--bill-tokens", "5"},
	} {
		if got := invoke("", args...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := invoke("", append(tune, "--pairs", "21")...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "remove the file to begin anew") {
		t.Errorf("%+v", got)
	}
}

// batchSolved is what plan solve --policy bo-ods --json prints, as far as it is looked at.
type batchSolved struct {
	Tokens   int
	Feasible bool
	Cost     float64
	Latency  float64 `json:"latency_seconds"`
	Gap      *float64
	Layers   []struct {
		Experts []json.RawMessage
	}
	Least        float64 `json:"least_limit_seconds"`
	Binding      *int    `json:"binding_layer"`
	LayerSeconds float64 `json:"binding_layer_seconds"`
}

// solvesBatches plans a text by a table. A limit that no plan keeps is exit code 3, with one that can be
// asked for.
func solvesBatches(t *testing.T, in func(string) string) {
	t.Helper()
	solve := func(more ...string) (s batchSolved, got result) {
		got = invoke("", append([]string{"plan", "solve", "--policy", "bo-ods", "--json", "--table", in("t"), "--text", in("texts.txt"), "--tokens", "400"}, more...)...)
		if err := json.Unmarshal([]byte(got.Out), &s); err != nil && got.Out != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		return s, got
	}
	by, got := solve("--limit", "60s")
	if got.Code != cli.ExitDone || !by.Feasible || by.Tokens != 400 || len(by.Layers) != 8 || len(by.Layers[0].Experts) != 16 || by.Cost <= 0 || by.Latency > 60 || by.Gap != nil {
		t.Fatalf("%+v", got)
	}
	if best, got := solve("--limit", "60s", "--solver", "exact"); got.Code != cli.ExitDone || best.Cost > by.Cost*(1+1e-9) || best.Gap == nil {
		t.Errorf("%+v", got)
	}
	no, got := solve("--limit", "1ms")
	if got.Code != cli.ExitInfeasible || no.Feasible || no.Least <= 1e-3 || no.Binding == nil || no.LayerSeconds <= 0 || !strings.Contains(got.Err, fmt.Sprintf("raise the limit to %.3f s", math.Ceil(1e3*no.Least)/1e3)) {
		t.Fatalf("%+v", got)
	}
	if _, got := solve("--limit", fmt.Sprintf("%.6fs", no.Least+1e-6)); got.Code != cli.ExitDone {
		t.Errorf("what can be kept is refused: %+v", got)
	}
	if got := invoke("", "tune", "--in", in("r"), "--table", in("t"), "--share", "0.8", "--tokens", "64", "--pairs", "20", "--rounds", "1", "--limit", "1ms", "--out", in("no")); got.Code != cli.ExitInfeasible {
		t.Errorf("%+v", got)
	}
	for args, want := range map[string]string{
		"":                                       "--limit is 0s; give one above 0",
		"--limit 60s --shape small":              "--shape is of --policy remoe",
		"--limit 60s --profile moon":             "there is no platform",
		"--limit 60s --method bayes+attention":   "nobody knows of a text before",
		"--limit 60s --text " + in("nothing"):    "--text: reading texts",
		"--limit 60s --table " + in("texts.txt"): "--table",
		"--limit 60s --tokens 0":                 "--tokens is 0",
	} {
		if _, got := solve(strings.Fields(args)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := invoke("", "plan", "solve", "--table", in("t")); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "--table is of --policy bo-ods") {
		t.Errorf("%+v", got)
	}
}

// What cannot be counted or tuned is named, with the cure.
func TestBayesRefuses(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("nothing here starts goroutines")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	story, _ := texts(t)
	for name, more := range map[string][]string{"plain": nil, "few": {"--features"}} {
		args := append([]string{"record", "--no-inputs", "--out", in(name), "--answer-tokens", "0", "--texts", story}, more...)
		if got := invoke("", args...); got.Code != cli.ExitDone {
			t.Fatalf("%+v", got)
		}
	}
	for _, tt := range []struct{ args, want string }{
		{"bayes build --in PLAIN --table T", "make it with switchyard record --features"},
		{"bayes build --in FEW --table T", "record 100 sequences or more"},
		{"bayes build --in NONE --table T", "no such file"},
		{"bayes build --in FEW --table T --share 0", "--share is 0"},
		{"bayes eval --in FEW --table FEW", "make it with switchyard bayes build"},
		{"bayes eval --in FEW --table NONE", "reading the table"},
		{"bayes eval --in FEW --table FEW --method luck", "no method foretells experts"},
		{"bayes eval --in FEW --table FEW --tokens 0", "--tokens is 0"},
		{"tune --in FEW --table T --rounds 0", "--rounds is 0"},
		{"tune --in FEW --table T --method luck", "no method foretells experts"},
		{"arena --suite bo-ods --out OUT --batch-tokens 1", "--batch-tokens is 1; it must be 256 to"},
		{"arena --suite bo-ods --out OUT --sequences 131073", "--sequences is 131073; it must be 1 to"},
		{"arena --suite bo-ods --out OUT --sequences 131072", "--sequences is 131072 and test batches need"},
		{"arena --suite bo-ods --out OUT --latency 0", "--latency is 0; it must be above 0"},
		{"arena --suite bo-ods --out OUT --back-end live", "--suite bo-ods is simulated"},
		{"arena --suite bo-ods --out OUT --slo 3", "--slo is of another suite"},
		{"arena --suite remoe --out OUT --pairs 3", "--pairs is of another suite"},
	} {
		args := strings.NewReplacer("PLAIN", in("plain"), "FEW", in("few"), "NONE", in("none"), "OUT", in("out"), " T", " "+in("t")).Replace(tt.args)
		if got := invoke("", strings.Fields(args)...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%s: %+v", tt.args, got)
		}
	}
}
