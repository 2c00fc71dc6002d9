package direct

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// benchPrecisions runs f with the demo model in each precision.
func benchPrecisions(b *testing.B, f func(b *testing.B, r *Runner)) {
	for _, kind := range []model.Precision{model.AsStored, model.W16A16, model.Q8, model.W8A8, model.Q4, model.W4A8} {
		b.Run("precision="+string(kind), func(b *testing.B) {
			r, _ := loadIn(b, "../../../models/demo", tensor.BF16, kind)
			f(b, r)
		})
	}
}

// BenchmarkDecode is one step of a batch on the demo model.
func BenchmarkDecode(b *testing.B) {
	for _, batch := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			benchPrecisions(b, func(b *testing.B, r *Runner) { benchSteps(b, r, batch, func() {}) })
		})
	}
}

// BenchmarkKept is one step of 32 sequences on the demo model, by in what keys and values are kept.
func BenchmarkKept(b *testing.B) {
	for _, kept := range []model.KVCache{model.KVF32, model.KVBF16, model.KVInt8} {
		b.Run("kept="+string(kept), func(b *testing.B) {
			r, _ := loadKept(b, "../../../models/demo", tensor.BF16, model.AsStored, kept, 0)
			benchSteps(b, r, 32, func() {})
		})
	}
}

// benchSteps calls after behind each step.
func benchSteps(b *testing.B, r *Runner, batch int, after func()) {
	const tokens = 400
	var seqs []*Sequence
	begin := func() {
		for _, s := range seqs {
			s.Close()
		}
		seqs = seqs[:0]
		for i := range batch {
			s, err := r.Add([]uint32{0, uint32(100 + i), 200, 300}, tokens, greedy)
			if err != nil {
				b.Fatal(err)
			}
			seqs = append(seqs, s)
		}
	}
	begin()
	b.ResetTimer()
	for range b.N {
		if len(seqs[0].IDs) >= tokens {
			b.StopTimer()
			begin()
			b.StartTimer()
		}
		if err := r.Step(context.Background(), seqs); err != nil {
			b.Fatal(err)
		}
		after()
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkParts is one step of 32 sequences on the demo model, whose keys and values are in bf16: the median time of
// each part, in µs; "waiting" is gates and routed experts.
func BenchmarkParts(b *testing.B) {
	for _, kind := range []model.Precision{model.AsStored, model.W16A16, model.Q8, model.W8A8, model.Q4, model.W4A8} {
		b.Run("precision="+string(kind), func(b *testing.B) {
			r, _ := loadKept(b, "../../../models/demo", tensor.BF16, kind, model.KVBF16, 0)
			clock := &forward.Clock{}
			r.step.Clock = clock
			var seen [forward.Parts][]float64
			benchSteps(b, r, 32, func() {
				for part, d := range clock.Spent {
					seen[part] = append(seen[part], float64(d.Microseconds()))
				}
			})
			for part, name := range forward.PartNames() {
				slices.Sort(seen[part])
				b.ReportMetric(seen[part][len(seen[part])/2], name+"-µs")
			}
		})
	}
}

// BenchmarkPrefill is a prompt of 500 tokens in one step on the demo model.
func BenchmarkPrefill(b *testing.B) {
	benchPrecisions(b, func(b *testing.B, r *Runner) { benchPrefill(b, r, func() {}) })
}

func benchPrefill(b *testing.B, r *Runner, after func()) {
	const tokens = 500
	ids := make([]uint32, tokens)
	for i := range ids {
		ids[i] = uint32(100 + 13*i%8000)
	}
	for range b.N {
		s, err := r.Add(ids, 1, greedy)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Step(context.Background(), []*Sequence{s}); err != nil {
			b.Fatal(err)
		}
		s.Close()
		after()
	}
	b.ReportMetric(float64(tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
}
