package bench

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/tokenizer"
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

// openDemo has the command line's defaults.
func openDemo(ctx context.Context, m *model.Model, hops string) (*cluster.Cluster, error) {
	t, err := telemetry.Setup(ctx, telemetry.Config{ServiceName: "bench"})
	if err != nil {
		return nil, err
	}
	return cluster.Open(ctx, cluster.Settings{
		Node: &cluster.Node{Shared: deployment.Settings{
			Model: m, Pool: pool.New(2), Prefix: schemas.DefaultPrefix, Hops: schemas.Hops(hops), Wire: tensor.BF16,
			Telemetry: t, Logger: slog.New(slog.DiscardHandler),
		}},
		Services: cluster.Services{
			Attention: attention.Config{MaxModelLen: Context, KVBytes: KVBytes, MaxSequences: 256, MaxRows: 256, Microbatches: 2},
			Tokenizer: tokenizer.Config{MaxModelLen: Context, MaxQueued: 1024, InboxPrefixes: []string{"_INBOX."}},
		},
		Count: cluster.OneEach(),
	})
}
