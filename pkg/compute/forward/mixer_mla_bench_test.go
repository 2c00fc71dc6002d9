package forward

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/switchyard/switchyard/kernels/ceiling"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// lite is the attention of one layer of DeepSeek-V2-Lite.
var lite = model.MixerSpec{
	Kind: model.MLA, Heads: 16, KVHeads: 16, HeadDim: 192, ValueDim: 128, Scale: 0.1147,
	Latent: model.LatentSpec{KVRank: 512, NopeDim: 128, RopeDim: 64, Eps: 1e-6},
	Rope:   model.RopeSpec{Kind: model.Interleaved, Dim: 64, Theta: 1e4},
}

const liteHidden = 2048

func liteMixer(b *testing.B, seed uint64, positions int) *latentAttention {
	b.Helper()
	matrix := func(n, k int) *cpu.Matrix {
		raw := make([]byte, 2*n*k)
		x := noise(seed, n*k)
		cpu.Scale(x, 0.02)
		cpu.ToBF16(raw, x)
		return cpu.PackBF16(raw, n, k)
	}
	r, err := newRope(lite.Rope, positions)
	if err != nil {
		b.Fatal(err)
	}
	a := &latentAttention{
		spec: lite, shape: cpu.Latent{Heads: 16, Rank: 512, Rope: 64}, rope: r, lineNorm: noise(seed, 512),
		in: matrix(16*192+576, liteHidden), o: matrix(liteHidden, 16*128),
	}
	for range 16 {
		a.absorb, a.expand = append(a.absorb, matrix(512, 128)), append(a.expand, matrix(128, 512))
	}
	return a
}

// BenchmarkLatentDecode is one layer's attention for rows of as many sequences,
// each with 1,024 positions in its cache. Weights and lines are read once at
// best: the ceilings are the machine's, measured in the same run.
func BenchmarkLatentDecode(b *testing.B) {
	const context, copies = 1024, 4 // of the weights, more than the caches hold
	threads := runtime.GOMAXPROCS(0)
	p := pool.New(threads)
	defer p.Close()
	read, fma := ceiling.Bandwidth(256<<20, threads), ceiling.FMA()*float64(threads)
	var mixers []*latentAttention
	for i := range copies {
		mixers = append(mixers, liteMixer(b, uint64(i), context))
	}
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			s := latentStep(b, p, n, context)
			x, out := noise(7, n*liteHidden), make([]float32, n*liteHidden)
			i := 0
			for b.Loop() {
				mixers[i%copies].mix(s, 0, out, x)
				i++
			}
			bytes := float64(mixers[0].bytes()) + float64(n*context*576*4)
			flops := float64(n) * (float64(mixers[0].bytes()) + 2*16*context*(576+512))
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(bytes/seconds/read, "bandwidth_ratio")
			b.ReportMetric(flops/seconds/fma, "flops_ratio")
			b.ReportMetric(1e3*max(bytes/read, flops/fma), "ceiling_ms")
		})
	}
}

// latentStep has a row at the end of each of n sequences.
func latentStep(b *testing.B, p *pool.Pool, n, context int) *lane {
	b.Helper()
	kv, err := kvcache.NewPool(kvcache.Shape{Layers: []kvcache.LayerShape{kvcache.Latent(512, 64, cpu.KVF32)}}, 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	s := &lane{weights: &weights{p: p}}
	for i := range n {
		table, err := kv.Reserve(context)
		if err != nil {
			b.Fatal(err)
		}
		table.Span(0, context)
		for pos := range context {
			table.StoreLatent(0, pos, noise(uint64(i), 576))
		}
		s.rows = append(s.rows, Row{Table: table, Position: context - 1})
	}
	return s
}
