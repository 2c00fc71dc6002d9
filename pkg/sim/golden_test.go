package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/sim/routing"
)

// The figures of every policy on the same ten seconds are those that testdata has, in nine
// digits: a change that moves one has to say so.
func TestGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range []string{"mixtral-8x7b", "llama-4-scout"} {
		m, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		w := workload(t, tenSeconds()[:25], m.Shape, routing.Demo(), Replay{PerSecond: 2, Domains: 5, Cycle: time.Hour, Seed: 1})
		for _, p := range Policies() {
			r := run(t, w, Defaults(m), p)
			fmt.Fprintf(&got, "%s %s %.9g %v %v\n", name, p.Name, []float64{r.Mean(), r.Quantile(0.99), r.ByReplica, r.Cost, r.Resident, r.Elapsed, r.Replicas()},
				[]int{r.Tokens, r.Rows, r.Decisions}, []int{r.ColdStarts, r.Waits})
		}
	}
	if got.String() != string(want) {
		t.Errorf("the figures are\n%swant\n%s", got.String(), want)
	}
}
