package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// The figures of every policy on the same five seconds are those that testdata has, in nine
// digits: a change that moves one has to say so.
func TestGolden(t *testing.T) {
	if testkit.Race {
		t.Skip("TestReplayed starts the same goroutines")
	}
	// As no request waits, moeless+lean's copies are gone when the next iteration comes.
	const keeps = "moeless+lean:gain=0.001:keep=5s"
	keen, err := registry.Choose(keeps, registry.Simulated)
	if err != nil {
		t.Fatal(err)
	}
	keen.Name = keeps
	var got strings.Builder
	for _, name := range []string{"mixtral-8x7b", "llama-4-scout"} {
		m, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		w := workload(t, tenSeconds()[:25], m.Shape, routing.Demo(), Replay{PerSecond: 2, Domains: 5, Cycle: time.Hour, Seed: 1})
		for _, p := range append(Policies(), keen) {
			r := run(t, w, Defaults(m), p)
			fmt.Fprintf(&got, "%s %s %.9g %v %v\n", name, p.Name, []float64{r.Mean(), r.Quantile(0.99), r.ByReplica, r.Cost, r.Resident, r.Elapsed, r.Replicas()},
				[]int{r.Tokens, r.Rows, r.Decisions}, []int{r.ColdStarts, r.Waits})
		}
	}
	same(t, "testdata/golden.txt", got.String())
}

var rewrite = flag.Bool("rewrite", false, "write the figures of testdata anew")

// same compares figures with those that a file has; -rewrite puts these in.
func same(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	switch {
	case err != nil:
		t.Fatal(err)
	case got == string(want):
	case *rewrite:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the figures are\n%swant\n%s(if they are right now, run the test with -rewrite)", got, want)
	}
}
