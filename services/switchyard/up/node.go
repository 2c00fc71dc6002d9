package up

import (
	"context"
	"errors"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// ProcessOf returns what services' own flags are read with.
func ProcessOf(g cli.Globals, m ModelFlags) service.Process {
	return service.Process{Prefix: g.Prefix, Version: cli.Semver(cli.Version), MaxModelLen: m.MaxModelLen, Insecure: g.Insecure, GPU: openGPU}
}

// Stopped turns the end that a signal asked for into success, also of the wait for a server.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, bus.ErrNoConnection)) {
		return nil
	}
	return err
}

// NewNode returns this process's share of a model, which it opens with what the process tells about itself.
func NewNode(ctx context.Context, e *cli.Env, mf ModelFlags, tc telemetry.Config) (*cluster.Node, error) {
	if err := tc.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return nil, cli.Usage(err)
	}
	line := e.Progress()
	line.Set("opening the model…")
	defer line.Clear()
	m, err := mf.open(ctx, e)
	if err != nil {
		return nil, errors.Join(err, t.Close()) //nolint:contextcheck // as Setup
	}
	return NodeOf(e, mf, m, pool.New(mf.ComputeThreads()), t), nil
}

// nodeBeside returns the share of a further model in a process that has one already, whose threads
// and pages it shares.
func nodeBeside(ctx context.Context, e *cli.Env, mf ModelFlags, tc telemetry.Config, first *cluster.Node) (*cluster.Node, error) {
	m, err := mf.open(ctx, e)
	if err != nil {
		return nil, err
	}
	n := NodeOf(e, mf, m, first.Shared.Pool, first.Shared.Telemetry.Beside(tc))
	n.KeepPool = true
	return n, nil
}

// NodeOf returns this process's share of an open model.
func NodeOf(e *cli.Env, mf ModelFlags, m *model.Model, p *pool.Pool, t *telemetry.Telemetry) *cluster.Node {
	logBytes, _ := mf.LogLimit() // checked with the other flags
	return &cluster.Node{Drain: e.Waits.Drain, Shared: deployment.Settings{
		Model: m, Pool: p, Prefix: e.Prefix, Name: mf.Name, Hops: mf.hops(), Wire: mf.WireType(),
		Replicas: mf.Replicas, LogAge: mf.LogAge, LogBytes: logBytes, AllRows: mf.RowsToPredictor == AllRows, Version: cli.Version, Telemetry: t, Logger: e.Log,
	}}
}

// SayReady prints `ready` once a token can flow.
func SayReady(ctx context.Context, e *cli.Env, p *cluster.Pipeline) {
	if p.AwaitReady(ctx) == nil {
		e.Say("ready\n", "ready")
	}
}
