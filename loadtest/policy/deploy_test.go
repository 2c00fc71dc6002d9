package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// instanceText is a small instance, with changes.
func instanceText(t testing.TB, changes ...string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/deploy.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		was := text
		if text = strings.Replace(text, changes[i], changes[i+1], 1); text == was {
			t.Fatalf("the instance has no %s", changes[i])
		}
	}
	return text
}

func deploy[T any](t *testing.T, name, text string) T {
	t.Helper()
	out, err := Deploy(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	of, ok := out.(T)
	if !ok {
		t.Fatalf("%T", out)
	}
	return of
}

// A stranger who tries all that options lists finds no cheaper plan than exact, and finds its cost.
func TestDeployExact(t *testing.T) {
	text := instanceText(t)
	exact := deploy[*Deployed](t, "exact", text)
	ours := deploy[*Deployed](t, "remoe", text)
	if !exact.Feasible || !ours.Feasible || ours.Cost < exact.Cost || exact.Plan == nil || exact.Latency < exact.TTFT {
		t.Fatalf("exact %s, remoe %s", encoded(t, exact), encoded(t, ours))
	}
	options := deploy[*Chosen](t, "options", text)
	var plans []string
	var try func(at int, chosen []string)
	try = func(at int, chosen []string) {
		if at == len(options.Options) {
			plans = append(plans, fmt.Sprintf(`{"main_memory_bytes": %s, "layers": [{"remote": %s, "memory_bytes": %s, "replicas": %s}, {"remote": %s, "memory_bytes": %s, "replicas": %s}]}`,
				chosen[0], chosen[1], chosen[2], chosen[3], chosen[4], chosen[5], chosen[6]))
			return
		}
		var values []json.RawMessage
		if err := json.Unmarshal([]byte(encoded(t, options.Options[at].Values)), &values); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			try(at+1, append(chosen[:at:at], string(v)))
		}
	}
	try(0, nil)
	results := deploy[*Evaluated](t, "evaluate", instanceText(t, "\n}\n", ",\n \"plans\": ["+strings.Join(plans, ",")+"]\n}\n")).Results
	least := math.Inf(1)
	for _, r := range results {
		if r.Feasible {
			least = min(least, r.Cost)
		}
	}
	if len(results) != len(plans) || math.Abs(least-exact.Cost) > 1e-12*least {
		t.Errorf("%d plans, the least costs %v, and exact %v", len(results), least, exact.Cost)
	}
}

// What is printed can be read again.
func TestDeployEvaluate(t *testing.T) {
	text := instanceText(t)
	exact := deploy[*Deployed](t, "exact", text)
	plan := encoded(t, exact.Plan)
	results := deploy[*Evaluated](t, "evaluate", instanceText(t, "\n}\n", ",\n \"plans\": ["+plan+`, {"main_memory_bytes": 5, "layers": []}]`+"\n}\n")).Results
	if len(results) != 2 || results[0].Cost != exact.Cost || !results[0].Feasible || results[1].Feasible || results[1].Cost != 0 || !strings.Contains(results[1].Limits[0], "constraint 10h") {
		t.Errorf("%s", encoded(t, results))
	}
	for _, name := range []string{"remoe", "exact"} {
		if got := deploy[*Deployed](t, name, instanceText(t, `"tpot_seconds": 0.06`, `"tpot_seconds": 1e-6`)); got.Feasible || got.Plan != nil || len(got.Limits) != 1 {
			t.Errorf("%s: %s", name, encoded(t, got))
		}
	}
}

func TestBadDeploys(t *testing.T) {
	if _, err := Deploy("odds", strings.NewReader("")); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, err := Deploy("ods", strings.NewReader(instanceText(t))); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "loads is missing") {
		t.Errorf("%v", err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"unsorted sizes", "[104857600, 524288000, 943718400]", "[524288000, 104857600]", "sizes are above 0 and ascend"},
		{"too small sizes", "[104857600, 524288000, 943718400]", "[1000]", "add a larger size"},
		{"no sizes", "[104857600, 524288000, 943718400]", "[]", "sizes are missing"},
		{"zero prices", `"dollars_per_gb_second": 1.66667e-05`, `"dollars_per_gb_second": 0`, "set a price above 0"},
		{"no replicas", `"replicas": 2`, `"replicas": 0`, "functions have 0 replicas at most"},
		{"small payload", `"payload_bytes": 6291456`, `"payload_bytes": 100`, "raise the payload to one row or more"},
		{"no tokens", `"prompt_tokens": 8`, `"prompt_tokens": 0`, "request.prompt_tokens is 0; it must be 1 to"},
		{"short most", `"most_prompt_tokens": 16`, `"most_prompt_tokens": 3`, "of at most 3"},
		{"no SLO", `"ttft_seconds": 5`, `"ttft_seconds": 0`, "the SLO is 0 s"},
		{"missing layer", "[[8, 5, 3], [7, 7, 2]]", "[[8, 5, 3]]", "prefill of 1 layers"},
		{"missing expert", "[8, 5, 3]", "[8, 5]", "prefill[0] must be a list of numbers, one for each expert"},
		{"negative rows", "[8, 5, 3]", "[8, -5, 3]", "prefill[0][1] must be a number of at least 0"},
		{"an expert twice", "[[[0, 1]", "[[[1, 1]", "tokens[0][0][1] is 1; a token's experts differ"},
		{"an expert of none", "[[[0, 1]", "[[[0, 3]", "tokens[0][0][1] is 3"},
		{"one expert", "[[[0, 1]", "[[[0]", "has 1 experts; top_k is 2"},
		{"missing token", ", [[1, 0], [0, 2]]]", "]", "and 3 tokens"},
		{"unknown", `"slo"`, `"sla"`, "sla is unknown"},
		{"more chosen than there are", `"top_k": 2`, `"top_k": 4`, "send a row to 4 of 3 experts"},
		{"no rows", "[8, 5, 3]", "[0, 0, 0]", "0 has no rows to plan by"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Deploy("remoe", strings.NewReader(instanceText(t, tc.old, tc.new)))
			if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	large := instanceText(t, `"memory_bytes": [104857600, 524288000, 943718400]`, `"memory_bytes": [`+ascending(1000, 104857600)+`]`)
	if _, err := Deploy("exact", strings.NewReader(large)); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "too many plans") {
		t.Errorf("%v", err)
	}
}

func ascending(n, from int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, from+i)
	}
	return b.String()
}

// FuzzDeploy wants an error or an answer.
func FuzzDeploy(f *testing.F) {
	f.Add([]byte(instanceText(f)), uint8(0))
	f.Add([]byte(instanceText(f, "[8, 5, 3]", "[8, 1e300, 3]")), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, name uint8) {
		if len(data) > 1<<13 {
			return
		}
		if out, err := Deploy(DeployNames[int(name)%len(DeployNames)], strings.NewReader(string(data))); err == nil {
			if _, err := json.Marshal(out); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestLPT(t *testing.T) {
	got, err := LPT(strings.NewReader(`{"loads": [5, 3, 3, 2, 2], "replicas": 2}`))
	if err != nil || encoded(t, got) != `{"groups":[[0,3],[1,2,4]],"makespan":8}` {
		t.Errorf("%s, %v", encoded(t, got), err)
	}
	if got, err := LPT(strings.NewReader(`{"loads": [], "replicas": 1}`)); err != nil || encoded(t, got) != `{"groups":[[]],"makespan":0}` {
		t.Errorf("%s, %v", encoded(t, got), err)
	}
	for in, want := range map[string]string{
		`{"loads": [1], "replicas": 0}`:   "replicas is 0; it must be 1 to",
		`{"loads": [-1], "replicas": 1}`:  "loads[0] must be a number",
		`{"loads": 1, "replicas": 1}`:     "must be a list of numbers",
		`{"replicas": 1}`:                 "loads is missing",
		`{"loads": ["a"], "replicas": 1}`: "loads[0] must be a number",
	} {
		if _, err := LPT(strings.NewReader(in)); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}
