package direct

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// BenchmarkScaling is steps of the demo model on as many threads as -cpu says, and what each part of a step takes.
func BenchmarkScaling(b *testing.B) {
	for _, batch := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			benchParts(b, func(r *Runner, after func()) { benchSteps(b, r, batch, after) })
		})
	}
	b.Run("prefill", func(b *testing.B) {
		benchParts(b, func(r *Runner, after func()) { benchPrefill(b, r, after) })
	})
}

// benchParts calls run with a runner, and with what it calls after each step.
func benchParts(b *testing.B, run func(r *Runner, after func())) {
	m, err := model.Open("../../../models/demo")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	p := pool.New(runtime.GOMAXPROCS(0))
	defer p.Close()
	var clock forward.Clock
	r, err := New(m, p, Settings{Wire: tensor.BF16, MaxPositions: 512, KVBytes: 256 << 20, Clock: &clock})
	if err != nil {
		b.Fatal(err)
	}
	var sum forward.Spent
	b.ResetTimer()
	run(r, func() {
		for part, t := range clock.Spent {
			sum[part] += t
		}
	})
	for part, name := range forward.PartNames() {
		if sum[part] > 0 {
			b.ReportMetric(sum[part].Seconds()*1e6/float64(b.N), name+"-µs")
		}
	}
}
