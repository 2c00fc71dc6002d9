package main

import (
	"context"
	"errors"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// processOf is what services' own flags are read with.
func processOf(g Globals, m ModelFlags) service.Process {
	return service.Process{Prefix: g.Prefix, Version: semver(version), MaxModelLen: m.MaxModelLen, Insecure: g.Insecure, GPU: openGPU}
}

// stopped turns the end that a signal asked for into success, also of the wait for a server.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, bus.ErrNoConnection)) {
		return nil
	}
	return err
}

// newNode opens the model and what this process tells about itself.
func newNode(ctx context.Context, e *env, mf ModelFlags, tc telemetry.Config) (*cluster.Node, error) {
	if err := tc.Validate(); err != nil {
		return nil, usage(err)
	}
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return nil, usage(err)
	}
	line := e.progress()
	line.Set("opening the model…")
	defer line.Clear()
	m, err := mf.open(ctx, e)
	if err != nil {
		return nil, errors.Join(err, t.Close()) //nolint:contextcheck // as Setup
	}
	return nodeOf(e, mf, m, pool.New(mf.threads()), t), nil
}

// nodeBeside is the share of a further model in a process that has one already, whose threads
// and pages it shares.
func nodeBeside(ctx context.Context, e *env, mf ModelFlags, tc telemetry.Config, first *cluster.Node) (*cluster.Node, error) {
	m, err := mf.open(ctx, e)
	if err != nil {
		return nil, err
	}
	n := nodeOf(e, mf, m, first.Shared.Pool, first.Shared.Telemetry.Beside(tc))
	n.KeepPool = true
	return n, nil
}

// nodeOf is this process's share of an open model.
func nodeOf(e *env, mf ModelFlags, m *model.Model, p *pool.Pool, t *telemetry.Telemetry) *cluster.Node {
	logBytes, _ := mf.logBytes() // checked with the other flags
	return &cluster.Node{Drain: e.waits.drain, Shared: deployment.Settings{
		Model: m, Pool: p, Prefix: e.Prefix, Name: mf.Name, Hops: mf.hops(), Wire: mf.wire(),
		Replicas: mf.Replicas, LogAge: mf.LogAge, LogBytes: logBytes, AllRows: mf.RowsToPredictor == allRows, Version: version, Telemetry: t, Logger: e.log,
	}}
}

// sayReady prints `ready` once a token can flow.
func sayReady(ctx context.Context, e *env, p *cluster.Pipeline) {
	if p.AwaitReady(ctx) == nil {
		e.say("ready\n", "ready")
	}
}
