package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

const fewRequests = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,4
2023-11-16 18:15:47.9951690,396,3
`

// Requests by the hour take the tokens of another trace, and need one.
func TestArenaByHour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hours, csv, out := filepath.Join(dir, "hours.csv"), filepath.Join(dir, "trace.csv"), filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(hours, []byte("hour,requests,sessions\n0,0,0\n1,7200,9\n"), 0o600), os.WriteFile(csv, []byte(fewRequests), 0o600)); err != nil {
		t.Fatal(err)
	}
	args := func(trace string, more ...string) []string {
		return append([]string{"arena", "--suite", "moeless", "--trace", trace, "--out", out, "--shapes", "mixtral-8x7b", "--policies", "static"}, more...)
	}
	got := invoke("", args(hours, "--lengths", csv, "--no-variants", "--seeds", "0", "--slice", "10s", "--json")...)
	var line struct{ Tokens int }
	if err := json.Unmarshal([]byte(got.Out), &line); got.Code != 0 || err != nil || line.Tokens < 3000 {
		t.Errorf("%+v, %v", got, err) // ten seconds have some twenty requests of 385 tokens
	}
	if got := invoke("", args(hours, "--lengths", csv, "--load", "0", "--point-slice", "5s", "--idle", "0s", "--seeds", "0", "--json")...); got.Code != 0 || !strings.Contains(got.Out, `"requests_per_s"`) {
		t.Errorf("%+v", got)
	}
	for name, tc := range testkit.SomeOf(map[string]struct {
		args []string
		want string
	}{
		"none":    {args(hours), "hours.csv: line 1 of the trace: it has requests by the hour, without tokens; name a trace whose requests lend theirs, with --lengths"},
		"no use":  {args(csv, "--lengths", csv), "--lengths is of a --trace with requests by the hour only; leave it out"},
		"hours":   {args(hours, "--lengths", hours), "--lengths: " + hours + ": line 1 of the trace: it has requests by the hour"},
		"missing": {args(hours, "--lengths", filepath.Join(dir, "no.csv")), "--lengths: reading the trace"},
		"live":    {args(hours, "--back-end", "live", "--texts", csv), "hours.csv: line 1 of the trace"},
	}) {
		if got := invoke("", tc.args...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
}

func TestArena(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	csv := filepath.Join(dir, "trace.csv")
	if err := os.WriteFile(csv, []byte(fewRequests), 0o600); err != nil {
		t.Fatal(err)
	}
	args := func(more ...string) []string {
		return append([]string{"arena", "--suite", "moeless", "--trace", csv, "--out", filepath.Join(dir, "out"), "--shapes", "mixtral-8x7b"}, more...)
	}
	got := invoke("", args("--back-end", "sim", "--no-variants", "--json")...)
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	var first struct{ Shape, Policy, Device string }
	if err := json.Unmarshal([]byte(lines[0]), &first); got.Code != 0 || err != nil || first.Policy != "static" || first.Device != "simulated" || len(lines) != len(sim.Policies()) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "out", "report.html")); err != nil {
		t.Error(err)
	}
	for name, tc := range testkit.SomeOf(map[string]struct {
		args []string
		want string
	}{
		"live":       {args("--back-end", "live"), "--texts is missing"},
		"repeats":    {args("--back-end", "live", "--repeats", "21"), "--repeats is 21; it must be 1 to 20"},
		"device":     {args("--back-end", "live", "--device", "tpu"), `--device must be one of "cpu","paced" but got "tpu"`},
		"trace":      {args("--back-end", "sim", "--trace", filepath.Join(dir, "no.csv")), "reading the trace"},
		"recording":  {args("--back-end", "sim", "--recording", csv), "trace.csv"},
		"predictors": {args("--back-end", "sim", "--predictors", csv), "predictors' report"},
		"shape":      {args("--back-end", "sim", "--shapes", "gpt-9"), `there is no shape "gpt-9"`},
		"distance":   {args("--back-end", "sim", "--distance", "0"), "prediction distance is 0"},
		"seeds":      {args("--back-end", "sim", "--seeds", "1"), "1 seeds are asked for; an interval needs 2 to 20, or 0 for none"},
		"out":        {args("--back-end", "sim", "--out", csv), "--out: making the report's folder: mkdir"},
		"speed":      {args("--back-end", "sim", "--speed", "3"), "--speed is of --back-end live only; leave it out"},
		"texts":      {args("--back-end", "sim", "--texts", csv), "--texts is of --back-end live only; leave it out"},
		"point":      {args("--back-end", "sim", "--load=0.3,-1"), "load -1 is no part of a capacity; it must be 0, which is the trace as it is, to 100"},
		"no points":  {args("--back-end", "sim", "--slo-ttft", "3s"), "--slo-ttft is of --back-end sim with --load only"},
		"live point": {args("--back-end", "live", "--load", "0.3"), "--load is of --back-end sim only"},
		"phase":      {args("--back-end", "live", "--phase", "3s"), "unknown flag --phase"},
		"policy":     {args("--policies", "static,moles"), `--policies: there is no policy "moles"; nearest is moeless;`},
		"twice":      {args("--policies", "static,static"), "static is there twice"},
		"setting":    {args("--policies", "moeless:gain=2"), "gain is a setting of moeless+, moeless+lean"},
		"no suite":   {[]string{"arena", "moles"}, `"arena moles" names no suite; it must be one of moeless, elastic,`},
		"suite":      {args("--back-end", "sim", "--suite", "all"), `has the suite "all"; it must be one of moeless, elastic,`},
	}) {
		if got := invoke("", tc.args...); got.Code != cli.ExitUsage || got.Out != "" || !strings.Contains(got.Err, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
}

// The suite fmoe simulates its own requests, and refuses what it has no use for.
func TestArenaOffload(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("loadtest/sim/offload has tests of its goroutines")
	}
	out := filepath.Join(t.TempDir(), "out")
	args := func(more ...string) []string {
		return append([]string{"arena", "--suite", "fmoe", "--out", out}, more...)
	}
	got := invoke("", args("--shapes", "phi-3.5-moe", "--budget", "12GB", "--no-variants", "--seeds", "1", "--served", "4", "--json")...)
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	policies := map[string]bool{}
	for _, line := range lines {
		var l struct {
			Shape, Policy string
			Budget        float64 `json:"budget_gb"`
			Hits          float64 `json:"hit_ratio"`
			Loads         float64
			TPOT          float64 `json:"tpot_ms_mean"`
			TTFT          float64 `json:"ttft_ms_mean"`
			Floor         float64 `json:"floor_tpot_ms"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Shape != "phi-3.5-moe" || l.Budget != 12 || l.TPOT <= l.Floor && l.Policy != "no-offload" || l.TTFT <= 0 || l.Loads > 0 == (l.Policy == "no-offload") {
			t.Errorf("%s: %v", line, err)
		}
		policies[l.Policy] = true
	}
	for _, name := range []string{"on-demand", "mixtral-offloading", "promoe", "moe-infinity", "fmoe", "fmoe+", "belady"} {
		if !policies[name] {
			t.Errorf("no line of %s", name)
		}
	}
	for want, more := range map[string][]string{
		"0.50 GB on 6 hosts holds no expert": {"--budget", "0.5"},
		`--budget has "x"; it must be`:       {"--budget", "6,x"},
		"--budget has 6 GB twice":            {"--budget", "6,6GB"},
		"--budget names none":                {"--budget", ""},
		"the prediction distance is 40":      {"--prefetch", "40"},
		"--maps: the capacity of the store":  {"--maps", "0"},
		"it must be 1 or more":               {"--maps", "0"},
		"--repeats is of --back-end live":    {"--repeats", "3"},
		"--recording is missing":             {"--back-end", "live"},
		"no live policy \"static\"":          {"--back-end", "live", "--recording", "no.st", "--policies", "static"},
		"--online: reading the trace":        {"--online", "no.csv"},
		"--recording: opening safetensors":   {"--back-end", "live", "--recording", "no.st", "--online", "none.csv"},
		"unknown flag --hosts":               {"--back-end", "live", "--recording", "no.st", "--hosts", "7"},
		"--seeds is of --back-end sim":       {"--back-end", "live", "--recording", "no.st", "--seeds", "3"},
		"--maps is 0; it must be 1 to":       {"--back-end", "live", "--recording", "no.st", "--maps", "0"},
		"unknown flag --trace":               {"--trace", "x.csv"},
		"--policies is of --back-end live":   {"--policies", "static"},
		"unknown flag --phase":               {"--phase", "3s"},
		"no.st":                              {"--recording", "no.st"},
		`there is no shape "llama-4-scout"`:  {"--shapes", "llama-4-scout"},
	} {
		if got := invoke("", args(more...)...); got.Code != cli.ExitUsage || got.Out != "" || !strings.Contains(got.Err, want) {
			t.Errorf("%v: %+v, want %q", more, got, want)
		}
	}
	if got := invoke("", "arena", "--suite", "moeless", "--trace", out, "--out", out, "--maps", "5"); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "unknown flag --maps") {
		t.Errorf("%+v", got)
	}
}

// The command that docs/elasticity.md begins with runs in a clone, here for a shorter time.
func TestElasticityPage(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("TestElasticity has all of its goroutines")
	}
	page, err := os.ReadFile("../../docs/elasticity.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(strings.ReplaceAll(string(page), "\\\n", ""), "\nbin/switchyard ")
	command, _, _ = strings.Cut(command, "\n")
	args := strings.Fields(command)
	if !found || len(args) == 0 || args[0] != "arena" {
		t.Fatalf("the page has no command: %q", command)
	}
	for i, arg := range args { // its files are named from the clone's root
		if i > 0 && args[i-1] == "--texts" {
			args[i] = "../../" + strings.ReplaceAll(arg, ",", ",../../")
		}
	}
	got := invoke("", append(args, "--out", t.TempDir(), "--phase", "600ms", "--pause", "100ms", "--hosts", "2", "--prompt", "8", "--answer", "4", "--keep-alive", "10s")...)
	if got.Code != cli.ExitDone || !strings.Contains(got.Out, "9 requests on 2 hosts (cpu): 0 failed, 0 answers differ") {
		t.Errorf("%+v", got)
	}
}

// Under a load that shifts, no request fails and no token differs from static plans'.
func TestElasticity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var texts []string
	for name, text := range map[string]string{"a": "Once upon a time there was a little girl. ", "b": "func main() { if err != nil { return err } }\n"} {
		path := filepath.Join(dir, name+".txt")
		if err := os.WriteFile(path, []byte(strings.Repeat(text, 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, path)
	}
	// Experts go to zero in the pauses: if they did between two requests, a slow machine would be busy for minutes.
	interval, keepAlive, requests := "100ms", "1s", 10
	if testkit.Race {
		interval, keepAlive, requests = "250ms", "10s", 4
	}
	out := filepath.Join(dir, "out")
	got := invoke("", "arena", "--suite", "elasticity", "--texts", strings.Join(texts, ","), "--out", out, "--json",
		"--hosts", "2", "--phase", "500ms", "--pause", "1500ms", "--interval", interval, "--prompt", "12", "--answer", "8", "--keep-alive", keepAlive)
	var y struct {
		Requests int `json:"requests"`
		Failed   int `json:"requests_failed"`
		Changed  int `json:"answers_changed"`
	}
	if err := json.Unmarshal([]byte(got.Out), &y); got.Code != 0 || err != nil || y.Requests != requests || y.Failed+y.Changed > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"elasticity.json", "elasticity.svg", "film.txt", "plans.txt"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// A suite may be named by the flag, the environment and the configuration, with the same flags under the name of
// arena or of the suite.
func TestSuiteNames(t *testing.T) {
	config := write(t, "arena: {suite: bo-ods, batch-tokens: 1, bo-ods: {batches: 0}}")
	for _, tc := range []struct {
		args, variable, want string
	}{
		{"arena moeless --out x", "", "arena moeless --out x"},
		{"arena --out x --suite moeless --seed 2", "", "arena moeless --out x --seed 2"},
		{"arena --suite=fmoe --suite=moeless", "", "arena moeless"},
		{"--nats x arena --suite remoe --help", "", "--nats x arena remoe --help"},
		{"arena --help", "remoe", "arena --help"},
		{"arena --out x", "elasticity", "arena elasticity --out x"},
		{"record --out arena --suite", "remoe", "record --out arena --suite"},
		{"arena --out x", "", ""},
	} {
		t.Setenv("SWITCHYARD_SUITE", tc.variable)
		got, err := suiteFirst(strings.Fields(tc.args), func(string) string { return "" })
		if strings.Join(got, " ") != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %q, %v; want %s", tc.args, got, err, tc.want)
		}
	}
	for _, want := range []string{"--batch-tokens is 1;", "--batches is 0;"} {
		if got := invoke("", "arena", "--out", t.TempDir(), "--config", config); got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := invoke("", "arena", "--out", t.TempDir()); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "it must be one of moeless, elastic, ") {
		t.Errorf("%+v", got)
	}
}
