// Package clustertest has settings of in-process clusters for tests: those of
// the command line's defaults, quiet, and on one thread.
package clustertest

import (
	"context"
	"log/slog"

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

// Settings are of a cluster with one replica of each service. The cluster
// closes the model.
func Settings(ctx context.Context, m *model.Model, wire tensor.Wire, hops schemas.Hops) (cluster.Settings, error) {
	t, err := telemetry.Setup(ctx, telemetry.Config{ServiceName: "test"})
	if err != nil {
		return cluster.Settings{}, err
	}
	return cluster.Settings{
		Node: &cluster.Node{Shared: deployment.Settings{
			Model: m, Pool: pool.New(1), Prefix: schemas.DefaultPrefix, Hops: hops, Wire: wire,
			Telemetry: t, Logger: slog.New(slog.DiscardHandler),
		}},
		Services: cluster.Services{
			Attention: attention.Config{KVBytes: 64 << 20, MaxSequences: 256, MaxRows: 256, Microbatches: 2},
			Tokenizer: tokenizer.Config{MaxQueued: tokenizer.DefaultMaxQueued, InboxPrefixes: []string{schemas.DefaultInboxPrefix}},
		},
		Count: cluster.OneEach(),
	}, nil
}
