package requests

import (
	"fmt"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Twenty seconds of a trace as Azure's: five requests a second, each of about a thousand
// tokens and an answer of two hundred. An hour takes 180 times as long.
func BenchmarkRun(b *testing.B) {
	var rs []trace.Request
	for i := range 100 {
		rs = append(rs, trace.Request{At: time.Duration(i) * 200 * time.Millisecond, Context: 300 + 15*i, Generated: 100 + 2*i})
	}
	for _, name := range sim.Names()[:3] {
		m, err := sim.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		of := tape(b, m.Shape, routing.Demo())
		for _, p := range sim.Policies() {
			b.Run(fmt.Sprintf("shape=%s/policy=%s", name, p.Name), func(b *testing.B) {
				layers := 0
				for b.Loop() {
					r, err := Run(rs, nil, of, Defaults(m.Shape), sim.Defaults(m), p)
					if err != nil {
						b.Fatal(err)
					}
					layers += len(r.Layers)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(layers), "ns/layer")
			})
		}
	}
}
