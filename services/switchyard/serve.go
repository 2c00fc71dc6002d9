package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// The five services as commands: one service a process, many replicas of each.

// TokenizerCmd runs a tokenizer.
type TokenizerCmd struct {
	ModelFlags     `embed:""`
	TokenizerFlags `embed:""`
	TelemetryFlags `embed:""`
}

// AttentionCmd runs an attention replica.
type AttentionCmd struct {
	ModelFlags     `embed:""`
	AttentionFlags `embed:""`
	TelemetryFlags `embed:""`
}

// GateCmd runs a gate.
type GateCmd struct {
	ModelFlags     `embed:""`
	TelemetryFlags `embed:""`
}

// ExpertCmd runs an expert host.
type ExpertCmd struct {
	ModelFlags     `embed:""`
	ExpertFlags    `embed:""`
	TelemetryFlags `embed:""`
}

// AggregatorCmd runs an aggregator.
type AggregatorCmd struct {
	ModelFlags     `embed:""`
	TelemetryFlags `embed:""`
}

// Run serves until a signal.
func (c *TokenizerCmd) Run(ctx context.Context, e *env) error {
	cfg, err := c.TokenizerFlags.config(c.ModelFlags, e.Prefix)
	return serve(ctx, e, "tokenizer", c.ModelFlags, c.TelemetryFlags, makers{tokenizer: cfg}, err)
}

// Run serves until a signal.
func (c *AttentionCmd) Run(ctx context.Context, e *env) error {
	cfg, err := c.AttentionFlags.config(c.ModelFlags)
	return serve(ctx, e, "attention", c.ModelFlags, c.TelemetryFlags, makers{attention: cfg}, err)
}

// Run serves until a signal.
func (c *GateCmd) Run(ctx context.Context, e *env) error {
	return serve(ctx, e, "gate", c.ModelFlags, c.TelemetryFlags, makers{}, nil)
}

// Run serves until a signal.
func (c *ExpertCmd) Run(ctx context.Context, e *env) error {
	cfg, err := c.ExpertFlags.config()
	return serve(ctx, e, "expert", c.ModelFlags, c.TelemetryFlags, makers{expert: cfg}, err)
}

// Run serves until a signal.
func (c *AggregatorCmd) Run(ctx context.Context, e *env) error {
	return serve(ctx, e, "aggregator", c.ModelFlags, c.TelemetryFlags, makers{}, nil)
}

// drainTime is how long a stopping process may take to finish or hand over.
const drainTime = 10 * time.Second

// serve runs one service as this process.
func serve(ctx context.Context, e *env, name string, mf ModelFlags, tf TelemetryFlags, m makers, flagErr error) (err error) {
	if err := errors.Join(flagErr, mf.check()); err != nil {
		return err
	}
	n, err := newNode(ctx, e, mf, tf.config("switchyard-"+name, mf))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	n.bus = e.busConfig()
	count := map[string]int{name: 1}
	if err := m.check(n.model, count); err != nil {
		return err
	}
	p := &pipeline{node: n, make: m, count: count}
	n.telemetry.Watch(p)
	go sayReady(ctx, e, p)
	return stopped(ctx, lifecycle.Run(ctx, lifecycle.NewGroup("switchyard", n.telemetry, p), drainTime))
}

// stopped turns the end that a signal asked for into success.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || err == nil) {
		return nil
	}
	return err
}

func newNode(ctx context.Context, e *env, mf ModelFlags, tc telemetry.Config) (*node, error) {
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
	m, err := mf.open(e.log)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return &node{model: m, pool: pool.New(mf.threads()), telemetry: t, log: e.log, flags: mf, prefix: e.Prefix}, nil
}

// readyPoll is how often readiness is looked at.
const readyPoll = 5 * time.Millisecond

// awaitReady returns when all is ready, or ctx's error with what was missing.
func awaitReady(ctx context.Context, all lifecycle.Readier) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		missing := all.Ready()
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; not ready yet: %w", ctx.Err(), missing)
		case <-tick.C:
		}
	}
}

// sayReady prints `ready` once a token can flow.
func sayReady(ctx context.Context, e *env, all lifecycle.Readier) {
	if awaitReady(ctx, all) == nil {
		tuneCollector()
		_, _ = fmt.Fprintln(e.err, "ready") // nowhere to complain
	}
}
