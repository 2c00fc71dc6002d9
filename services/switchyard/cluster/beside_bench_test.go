package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// BenchmarkPromptsBeside is what readers of eight answers see of prompts of 500 tokens, of which one
// comes as soon as the one before has its answer: times between tokens in turns of two seconds without
// prompts and with, with pieces of prompts bounded by the step and not.
func BenchmarkPromptsBeside(b *testing.B) {
	for _, drag := range []float64{0, 0.25} {
		b.Run(fmt.Sprintf("prompt-drag=%g", drag), func(b *testing.B) {
			y := clustertest.Start(b, clustertest.Demo(b), func(s *cluster.Settings) {
				s.Node.Shared.Pool.Close()
				s.Node.Shared.Pool = pool.New(runtime.GOMAXPROCS(0))
				a := &s.Services.Attention
				a.PromptDrag, a.Speculate, a.PrefixCache = drag, 0, false
			})
			r := &readers{y: y, gaps: map[bool][]float64{}}
			ctx, stop := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { r.read(ctx, b, i) })
			}
			var ratios, firsts []float64
			for b.Loop() {
				firsts = append(firsts, r.turns(b)...)
				ratios = append(ratios, r.ratio(0.99))
			}
			stop()
			all.Wait()
			slices.Sort(ratios)
			slices.Sort(firsts)
			b.ReportMetric(quantile.Of(ratios, 0.5), "p99-ratio")
			b.ReportMetric(ratios[0], "p99-ratio-least")
			b.ReportMetric(ratios[len(ratios)-1], "p99-ratio-most")
			b.ReportMetric(quantile.Of(firsts, 0.5)*1e3, "ttft-ms")
			b.ReportMetric(float64(500*len(firsts))/(turnOfPrompts.Seconds()*float64(b.N)), "prompt-tokens/s")
			for with, name := range map[bool]string{false: "without", true: "with"} {
				b.ReportMetric(r.all(with, 0.5)*1e3, name+"-p50-ms")
				b.ReportMetric(r.all(with, 0.99)*1e3, name+"-p99-ms")
			}
		})
	}
}

const turnOfPrompts = 2 * time.Second

// readers read answers, and note the times between tokens.
type readers struct {
	y       clustertest.Cluster
	prompts atomic.Bool // there are some

	mu    sync.Mutex
	gaps  map[bool][]float64 // of this turn, by whether there were prompts
	every [2][]float64
}

// read asks for one answer after the other.
func (r *readers) read(ctx context.Context, b *testing.B, i int) {
	warmth := 0.8
	for n := 0; ctx.Err() == nil; n++ {
		seed := uint32(8*n + i)
		s, err := r.y.Producer.Prompt(ctx, &pb.Prompt{Text: "Once upon a time", MaxTokens: new(int32(480)), IgnoreEos: true, Temperature: &warmth, Seed: &seed})
		if err != nil {
			return
		}
		var last time.Time
		for c, err := range s.Chunks() {
			if err == nil {
				err = client.Failure(c)
			}
			if err != nil {
				break
			}
			now := time.Now()
			if len(c.TokenIds) > 0 && !last.IsZero() {
				r.note(now.Sub(last).Seconds() / float64(len(c.TokenIds)))
			}
			last = now
		}
		s.Close()
	}
}

func (r *readers) note(gap float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	with := r.prompts.Load()
	r.gaps[with] = append(r.gaps[with], gap)
}

// turns are one without prompts and one with; they return the times to these prompts' first tokens.
func (r *readers) turns(b *testing.B) (firsts []float64) {
	b.Helper()
	r.mu.Lock()
	r.gaps = map[bool][]float64{}
	r.mu.Unlock()
	time.Sleep(turnOfPrompts)
	r.prompts.Store(true)
	defer r.prompts.Store(false)
	for began := time.Now(); time.Since(began) < turnOfPrompts; {
		p := &pb.Prompt{InputIds: make([]uint32, 500), MaxTokens: new(int32(1)), IgnoreEos: true}
		for i := range p.InputIds {
			p.InputIds[i] = 10 + rand.Uint32N(2000) //nolint:gosec // no secret
		}
		asked := time.Now()
		if err := r.y.Answer(b, p); err != nil {
			b.Fatal(err)
		}
		firsts = append(firsts, time.Since(asked).Seconds())
	}
	return firsts
}

// ratio is how many times as long a quantile of the gaps is with prompts, in the newest turns.
func (r *readers) ratio(q float64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, with := range []bool{false, true} {
		slices.Sort(r.gaps[with])
		r.every[i] = append(r.every[i], r.gaps[with]...)
	}
	return quantile.Of(r.gaps[true], q) / quantile.Of(r.gaps[false], q)
}

// all is a quantile of all turns' gaps.
func (r *readers) all(with bool, q float64) float64 {
	at := 0
	if with {
		at = 1
	}
	slices.Sort(r.every[at])
	return quantile.Of(r.every[at], q)
}
