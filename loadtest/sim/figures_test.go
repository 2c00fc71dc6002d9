package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// What a scaler's loop makes of a fixed trace is kept in testdata/loops.txt, so that a change
// of form can be told from a change of decisions.
func TestLoops(t *testing.T) {
	if testkit.Race {
		t.Skip("TestReplayed starts the same goroutines")
	}
	var got strings.Builder
	for _, on := range []string{"mixtral-8x7b moeless", "mixtral-8x7b eplb", "mixtral-8x7b reactive", "mixtral-8x7b moeless+", "llama-4-scout reactive"} {
		shape, scaling, _ := strings.Cut(on, " ")
		m, err := Open(shape)
		if err != nil {
			t.Fatal(err)
		}
		w := workload(t, tenSeconds()[:6], m.Shape, routing.Demo(), Replay{PerSecond: 4, Domains: 5, Cycle: time.Hour, Seed: 1})
		of := elastic.DefaultSettings()
		of.Scaling, of.Worth = scaling, 0
		p, err := Loop(Defaults(m), of)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, w, Defaults(m), p)
		fmt.Fprintf(&got, "%s: mean %.9g p99 %.9g cost %.9g resident %.9g replicas %.9g loads %d decisions %d waits %d\n",
			on, r.Mean(), r.Quantile(0.99), r.Cost, r.Resident, r.Replicas(), r.ColdStarts, r.Decisions, r.Waits)
	}
	same(t, "testdata/loops.txt", got.String())
}
