package policy

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

// batchText is a small instance, with changes.
func batchText(t testing.TB, changes ...string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/batch.json")
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

// A stranger who tries all that options lists finds no cheaper plan than exact, and finds its cost.
func TestBatchExact(t *testing.T) {
	text := batchText(t)
	exact, ours := deploy[*BatchDeployed](t, "exact", text), deploy[*BatchDeployed](t, "ods", text)
	if !exact.Feasible || !ours.Feasible || ours.Cost < exact.Cost || exact.Plan == nil || math.Abs(exact.Bound-exact.Cost) > 1e-9*exact.Cost || exact.Latency > 0.79 {
		t.Fatalf("exact %s, ods %s", encoded(t, exact), encoded(t, ours))
	}
	options := deploy[*Chosen](t, "options", text)
	var plans []string
	var try func(at int, chosen []any)
	try = func(at int, chosen []any) {
		if at == len(options.Options) {
			plans = append(plans, encoded(t, batchPlan(chosen)))
			return
		}
		var values []float64
		if err := json.Unmarshal([]byte(encoded(t, options.Options[at].Values)), &values); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			try(at+1, append(chosen[:at:at], v))
		}
	}
	try(0, nil)
	results := deploy[*BatchEvaluated](t, "evaluate", batchText(t, "\n}\n", ",\n \"plans\": ["+strings.Join(plans, ",")+"]\n}\n")).Results
	least, feasible := math.Inf(1), 0
	for _, r := range results {
		if r.Feasible {
			least = min(least, r.Cost)
			feasible++
		}
	}
	if len(results) != len(plans) || math.Abs(least-exact.Cost) > 1e-12*least || feasible == len(results) {
		t.Errorf("%d plans, %d of them feasible, the least costs %v, and exact %v", len(results), feasible, least, exact.Cost)
	}
}

// batchPlan is a plan of values in the order of options.
func batchPlan(v []any) map[string]any {
	layer := func(at int) map[string]any {
		one := func(at int) map[string]any { return map[string]any{"memory_bytes": v[at], "replicas": v[at+1]} }
		return map[string]any{"mode": v[at], "experts": []any{one(at + 1), one(at + 3)}}
	}
	return map[string]any{"beta": v[0], "layers": []any{layer(1), layer(6)}}
}

// What is printed can be read again; a limit that no plan keeps names one that can be.
func TestBatchEvaluate(t *testing.T) {
	exact := deploy[*BatchDeployed](t, "exact", batchText(t))
	plans := ",\n \"plans\": [" + encoded(t, exact.Plan) + `, {"beta": 1, "layers": []}]` + "\n}\n"
	results := deploy[*BatchEvaluated](t, "evaluate", batchText(t, "\n}\n", plans)).Results
	if len(results) != 2 || results[0].Cost != exact.Cost || !results[0].Feasible || results[1].Feasible || !strings.Contains(results[1].Limits[0], "constraint 6g") {
		t.Errorf("%s", encoded(t, results))
	}
	for _, name := range []string{"ods", "exact"} {
		got := deploy[*BatchDeployed](t, name, batchText(t, `"limit_seconds": 0.79`, `"limit_seconds": 0.1`))
		if got.Feasible || got.Plan != nil || len(got.Limits) != 1 || got.Least <= 0.1 {
			t.Errorf("%s: %s", name, encoded(t, got))
		}
	}
	if got := deploy[*BatchDeployed](t, "ods", batchText(t, "[3, 2]", "[500000000, 2]")); got.Feasible || !strings.Contains(got.Limits[0], "expert 0 of layer 0 does not fit") {
		t.Errorf("%s", encoded(t, got))
	}
}

func TestBadBatches(t *testing.T) {
	if _, err := Deploy("remoe", strings.NewReader(batchText(t))); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "this is an instance of a batch") {
		t.Errorf("%v", err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"unsorted sizes", "[134217728, 1006632960]", "[1006632960, 134217728]", "sizes are above 0 and ascend"},
		{"too small sizes", "[134217728, 1006632960]", "[1000]", "add a larger size"},
		{"no price", `"dollars_per_gb_second": 1.66667e-05`, `"dollars_per_gb_second": 0`, "set a price above 0"},
		{"no replicas", `"replicas": 2`, `"replicas": 0`, "functions have 0 replicas at most"},
		{"negative rows", "[3, 2]", "[-3, 2]", "loads[0][0] must be a number of at least 0"},
		{"a layer too few", "[[3, 2], [1, 3]]", "[[3, 2]]", "rows of 1 layers"},
		{"an expert too few", "[3, 2]", "[3]", "loads[0] must be a list of numbers"},
		{"too many rows", "[3, 2]", "[1e300, 2]", "it must be 0 to"},
		{"unknown", `"limit_seconds"`, `"limit"`, "limit is unknown"},
		{"half kept", `"replicas": 2`, `"replicas": 2, "parameters_kept": 0.5`, "it must be a whole number from 0 to 1"},
		{"too many options", `"experts": 2`, `"experts": 500`, "loads[0] must be a list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Deploy("ods", strings.NewReader(batchText(t, tc.old, tc.new))); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzBatch wants an error or an answer.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(batchText(f)), uint8(0))
	f.Add([]byte(batchText(f, "[3, 2]", "[1e9, 2]")), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, name uint8) {
		if len(data) > 1<<12 {
			return
		}
		if out, err := Deploy(BatchNames[int(name)%len(BatchNames)], strings.NewReader(string(data))); err == nil {
			if _, err := json.Marshal(out); err != nil {
				t.Error(err)
			}
		}
	})
}
