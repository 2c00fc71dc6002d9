package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
)

// milpSizes is how many sizes of minibatches both solvers try, and milpSeconds what a solver may take (section V-A).
const (
	milpSizes   = 24
	milpSeconds = 180
)

// milpShapes are layers and experts: one that the program of the whole is solved for, and the paper's.
var milpShapes = [][2]int{{2, 3}, {12, 4}, {12, 8}, {12, 16}, {24, 4}}

// milpInstance is a batch of 10,240 rows for experts of BERT's shape on the platform of the paper.
func milpInstance(layers, experts, payload int) map[string]any {
	state, loads := splitmix.Mix(uint64(layers+experts)), make([][]float64, layers)
	for l := range loads {
		sum, shares := 0.0, make([]float64, experts)
		for e := range shares {
			u := splitmix.Unit(splitmix.Next(&state))
			shares[e] = 0.1 + u*u
			sum += shares[e]
		}
		for _, s := range shares {
			loads[l] = append(loads[l], math.Floor(10240*s/sum))
		}
	}
	var sizes []int
	for _, mb := range []int{128, 768, 960, 1152, 1344, 1536, 1728, 1920, 2112, 2304, 2496, 2688, 2880, 3008} {
		sizes = append(sizes, mb<<20)
	}
	return map[string]any{
		"model": map[string]any{"layers": layers, "experts": experts, "top_k": 1, "expert_bytes": 18874368, "function_bytes": 33566720, "row_in_bytes": 3072, "row_out_bytes": 3072, "next_bytes": 9437184},
		"platform": map[string]any{
			"memory_bytes": sizes, "memory_per_cpu_bytes": 1854930944, "read_bytes_per_second": 8e9, "flops_per_second": 20e9, "element_bytes": 4, "invocation_seconds": 0.02,
			"store_latency_seconds": 0.025, "store_bytes_per_second": 75e6, "message_bytes_per_second": 50e6, "payload_bytes": payload, "dollars_per_gb_second": 1.66667e-05, "replicas": 8,
		},
		"loads": loads, "limit_seconds": 1e-3, "layer_seconds": 1.5,
	}
}

// exactly is exact's plan among so many sizes of minibatches.
func exactly(t *testing.T, instance map[string]any) *BatchDeployed {
	t.Helper()
	v, err := parse([]byte(encoded(t, instance)))
	if err != nil {
		t.Fatal(err)
	}
	x, err := readBatch(v)
	if err != nil {
		t.Fatal(err)
	}
	x.set.Betas = milpSizes
	d, err := x.solve(ods.Exact)
	if err != nil {
		t.Fatal(err)
	}
	deployed, ok := d.(*BatchDeployed)
	if !ok {
		t.Fatalf("%T", d)
	}
	return deployed
}

// exact's plans cost what an open solver finds by formulas of its own, on the paper's shapes. SWITCHYARD_SHAPES
// is how many of them are solved; the first two take seconds.
func TestMILP(t *testing.T) {
	t.Parallel()
	python := cmp.Or(os.Getenv("SWITCHYARD_PYTHON"), "python3")
	if out, err := exec.Command(python, "-c", "import highspy").CombinedOutput(); err != nil {
		t.Skipf("%s has no highspy, whose HiGHS solves the same: pip install highspy, and SWITCHYARD_PYTHON names another python (%v: %s)", python, err, bytes.TrimSpace(out))
	}
	shapes, err := strconv.Atoi(cmp.Or(os.Getenv("SWITCHYARD_SHAPES"), "2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range milpShapes[:shapes] {
		t.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(t *testing.T) { solveMILP(t, python, shape[0], shape[1]) })
	}
}

// found is what a program found: HiGHS's plan, and what none costs less than.
type found struct {
	Cost, Bound, Seconds float64
	Status               string
}

// solveMILP has a shape's instances solved by both.
func solveMILP(t *testing.T, python string, layers, experts int) {
	t.Helper()
	var instances []map[string]any
	var names []string
	var ours []*BatchDeployed
	for _, payload := range []int{6291456, 65536} { // messages take few rows of the second, so that objects are used
		least := exactly(t, milpInstance(layers, experts, payload)).Least
		for _, times := range []float64{1.01, 1.05, 1.5} {
			x := milpInstance(layers, experts, payload)
			x["limit_seconds"] = times * least
			instances, ours = append(instances, x), append(ours, exactly(t, x))
			names = append(names, fmt.Sprintf("payload %d, limit %v of the least", payload, times))
		}
	}
	run := exec.CommandContext(t.Context(), python, "testdata/milp.py")
	run.Stdin = strings.NewReader(encoded(t, map[string]any{"sizes": milpSizes, "seconds": milpSeconds, "whole_up_to": 6, "instances": instances}))
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bytes.NewReader(out))
	for i, name := range names {
		var programs map[string]found
		if err := lines.Decode(&programs); err != nil {
			t.Fatal(err)
		}
		for program, f := range programs {
			t.Logf("%s, %s: exact $%.8f, HiGHS $%.8f (no less than $%.8f) in %.1f s, %s", name, program, ours[i].Cost, f.Cost, f.Bound, f.Seconds, f.Status)
			if exact := ours[i].Cost; f.Bound > exact*(1+1e-6) || f.Cost < exact*(1-1e-6) || strings.HasSuffix(f.Status, "kOptimal") && f.Cost > exact*(1+1e-6) {
				t.Errorf("%s, %s: exact costs %v, HiGHS %v (no less than %v)", name, program, exact, f.Cost, f.Bound)
			}
		}
	}
}
