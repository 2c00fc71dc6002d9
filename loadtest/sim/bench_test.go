package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Ten seconds of a trace as Azure's: five requests a second, each of about a
// thousand tokens and an answer of two hundred.
func tenSeconds() (rs []trace.Request) {
	for i := range 50 {
		rs = append(rs, trace.Request{At: time.Duration(i) * 200 * time.Millisecond, Context: 300 + 30*i, Generated: 100 + 4*i})
	}
	return rs
}

func BenchmarkRun(b *testing.B) {
	for _, name := range Names()[:3] {
		m, err := Open(name)
		if err != nil {
			b.Fatal(err)
		}
		w := workload(b, tenSeconds(), m.Shape, routing.Demo(), Replay{PerSecond: 10, Domains: 5, Cycle: time.Hour, Seed: 1})
		for _, p := range Policies() {
			b.Run(fmt.Sprintf("shape=%s/policy=%s", name, p.Name), func(b *testing.B) {
				for b.Loop() {
					run(b, w, Defaults(m), p)
				}
				layers := float64(b.N * len(w.Iterations) * m.Layers)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/layers, "ns/layer")
			})
		}
	}
}
