package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/sim/routing"
)

// What each policy makes of a fixed trace is kept in testdata/figures.txt, so that a change
// of form can be told from a change of decisions. Where decisions are meant to change, the
// text of the failure replaces the file.
func TestFigures(t *testing.T) {
	var got strings.Builder
	for _, name := range []string{"mixtral-8x7b", "llama-4-scout"} {
		m, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		w := workload(t, tenSeconds()[:6], m.Shape, routing.Demo(), Replay{PerSecond: 4, Domains: 5, Cycle: time.Hour, Seed: 1})
		policies := Policies()
		for _, scaling := range []string{"moeless", "eplb", "reactive"} {
			if name != "mixtral-8x7b" {
				break // a layer's share of the others' memory is less than a plan may give it
			}
			of := elastic.DefaultSettings()
			of.Scaling = scaling
			p, err := Loop(Defaults(m), of)
			if err != nil {
				t.Fatal(err)
			}
			p.Name = "loop " + p.Name
			policies = append(policies, p)
		}
		for _, p := range policies {
			r := run(t, w, Defaults(m), p)
			fmt.Fprintf(&got, "%s %s: mean %.9g p99 %.9g cost %.9g resident %.9g replicas %.9g loads %d decisions %d waits %d\n",
				name, p.Name, r.Mean(), r.Quantile(0.99), r.Cost, r.Resident, r.Replicas(), r.ColdStarts, r.Decisions, r.Waits)
		}
	}
	want, err := os.ReadFile("testdata/figures.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}
