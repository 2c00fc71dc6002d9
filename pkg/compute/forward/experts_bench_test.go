package forward

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/ceiling"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// The ceilings of both threads, measured once in the run that uses them.
var (
	peakFMA   = sync.OnceValue(func() float64 { return 2 * ceiling.FMA() })
	peakPairs = sync.OnceValue(func() float64 { return 2 * ceiling.Pairs() })
	peakBytes = sync.OnceValue(func() float64 { return 2 * ceiling.Bytes() })
	peakRead  = sync.OnceValue(func() float64 { return ceiling.Bandwidth(512<<20, 2) })
)

// BenchmarkLargeExperts computes experts of published shapes, more than the caches hold, with so many rows each by two threads.
func BenchmarkLargeExperts(b *testing.B) {
	for _, s := range []struct {
		name                   string
		hidden, width, experts int
		rows                   []int
	}{
		{"mixtral-8x7b", 4096, 14336, 1, []int{1, 8, 128}}, {"qwen3-30b-a3b", 2048, 768, 16, []int{1, 2, 32}},
	} {
		for _, f := range []struct {
			name string
			cpu.Format
			peak func() float64
		}{
			{"bf16", cpu.BF16, peakFMA}, {"w16a16", cpu.W16A16, peakPairs}, {"q8", cpu.Q8, peakFMA}, {"w8a8", cpu.W8A8, peakBytes},
			{"q4", cpu.Q4, peakFMA}, {"w4a8", cpu.W4A8, peakBytes},
		} {
			b.Run(s.name+"/format="+f.name, func(b *testing.B) {
				l := drawnExperts(b, s.experts, s.hidden, s.width, f.Format)
				for _, rows := range s.rows {
					b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchExperts(b, l, rows, f.peak()) })
				}
			})
		}
	}
}

// benchExperts tells what one of ten calls stays within, and its shares of ceilings.
func benchExperts(b *testing.B, l *loaded, rows int, peak float64) {
	in := entriesOf(len(l.experts), rows, l.experts[ExpertID{}].hidden())
	out := make([]float32, len(in.X))
	var s ExpertScratch
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := ComputeExperts(l.p, l, in, out, &s); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	best := took[len(took)/10].Seconds()
	bytes, flops := 0.0, 0.0
	for _, e := range l.experts {
		bytes += float64(e.Bytes())
		flops += 2 * float64(rows) * float64(e.in.N*e.in.K+e.down.N*e.down.K)
	}
	b.ReportMetric(best*1e3, "best-ms")
	b.ReportMetric(flops/best/peak, "best-flops_ratio")
	b.ReportMetric(bytes/best/peakRead(), "best-bandwidth_ratio")
}
