package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/schemas"
)

// BenchmarkPipeline is one step of a batch on the demo model, through messages.
func BenchmarkPipeline(b *testing.B) {
	for _, hops := range []schemas.Hops{schemas.HopsUnacked, schemas.HopsAcked, schemas.HopsCore} {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("hops=%s/batch=%d", hops, batch), func(b *testing.B) { benchPipeline(b, hops, batch) })
		}
	}
}

func benchPipeline(b *testing.B, hops schemas.Hops, batch int) {
	ctx := context.Background()
	cmd := &BenchCmd{}
	if err := fillDefaults(cmd); err != nil {
		b.Fatal(err)
	}
	m, err := model.Demo()
	if err != nil {
		b.Fatal(err)
	}
	e := &env{Globals: Globals{Prefix: schemas.DefaultPrefix}, stdio: stdio{out: io.Discard, err: io.Discard}, log: slog.New(slog.DiscardHandler)}
	side, err := cmd.openPipeline(ctx, e, m, string(hops))
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
