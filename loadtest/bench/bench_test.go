package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// BenchmarkPipeline is one step of a batch on the demo model, through messages.
func BenchmarkPipeline(b *testing.B) {
	for _, hops := range []schemas.Hops{schemas.HopsUnacked, schemas.HopsAcked, schemas.HopsCore} {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("hops=%s/batch=%d", hops, batch), func(b *testing.B) { benchPipeline(b, string(hops), batch) })
		}
	}
}

func benchPipeline(b *testing.B, hops string, batch int) {
	ctx := context.Background()
	m, err := model.Demo()
	if err != nil {
		b.Fatal(err)
	}
	bench := &Bench{settings: Settings{Model: m, Open: func(ctx context.Context, hops string) (*cluster.Cluster, error) {
		return openDemo(ctx, m, hops)
	}}}
	side, err := bench.openPipeline(ctx, hops)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := side.close(); err != nil {
			b.Error(err)
		}
	}()
	if _, err := side.decode(ctx, batch, 32); err != nil { // warm
		b.Fatal(err)
	}
	b.ResetTimer()
	for left := b.N; left > 0; left -= benchTurn {
		if _, err := side.decode(ctx, batch, max(2, min(left, benchTurn))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "tokens/s")
}

// benchTurn is the most tokens that a request of the benchmark asks for.
const benchTurn = 400

// openDemo opens a cluster with the memory and the threads of a benchmark.
func openDemo(ctx context.Context, m *model.Model, hops string) (*cluster.Cluster, error) {
	s, err := clustertest.Settings(ctx, m, tensor.BF16, schemas.Hops(hops))
	if err != nil {
		return nil, err
	}
	s.Node.Shared.Pool.Close()
	s.Node.Shared.Pool = pool.New(runtime.NumCPU())
	s.Services.Attention.KVBytes, s.Services.Attention.MaxModelLen, s.Services.Tokenizer.MaxModelLen = KVBytes, Context, Context
	return cluster.Open(ctx, s)
}

// The measurement goes through its plans, and no answer changes.
func TestRescale(t *testing.T) {
	m, err := model.Synthetic("tiny", Seed)
	if err != nil {
		t.Fatal(err)
	}
	s, err := clustertest.Settings(t.Context(), m, tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	s.Count["expert"] = RescaleHosts
	y, err := cluster.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Rescale(t.Context(), y, 2, 1, 100*time.Millisecond, func(string, ...any) {})
	if err = errors.Join(err, y.Close()); err != nil {
		t.Fatal(err)
	}
	if r.Changes != len(steps) || r.Loads == 0 || r.Changed != 0 || r.Moving.Tokens == 0 || r.Steady.Tokens == 0 {
		t.Errorf("%+v", r)
	}
}
