package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// The services as commands: one service a process, many replicas of each.

// TokenizerCmd runs a tokenizer.
type TokenizerCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	TokenizerFlags `embed:""`
	EdgeFlags      `embed:""`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`
}

// EdgeFlags say how a tokenizer reaches producers where they are in an account of their own.
type EdgeFlags struct {
	EdgeNATS  string `name:"edge-nats" help:"NATS URL or context of user tokenizer-edge, which hears and answers producers, where they have an account of their own; without it --nats." placeholder:"URL"`
	EdgeCreds string `name:"edge-creds" help:"That user's credentials file, tokenizer-edge.creds of auth init; without it --creds." placeholder:"FILE"`
}

// config is nil where one user does for both.
func (f EdgeFlags) config(g Globals) (*bus.Config, error) {
	if f == (EdgeFlags{}) {
		if user := g.busConfig().User(); user != "" && rights.AccountOf(user) != rights.ProducersAccount {
			return nil, usage(fmt.Errorf("the credentials are of user %s, who does not hear producers: they have an account of their own; "+
				"give those of user %s too, with --edge-creds FILE or --edge-nats CONTEXT (switchyard auth update makes them where they are missing)", user, rights.Edge))
		}
		return nil, nil //nolint:nilnil // one user does for both
	}
	c := g.busConfig()
	if f.EdgeNATS != "" {
		c.URL, c.Creds = f.EdgeNATS, ""
	}
	c.Creds = cmp.Or(f.EdgeCreds, c.Creds)
	return &c, nil
}

// AttentionCmd runs an attention replica.
type AttentionCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	AttentionFlags `embed:""`
	KafkaFlags     `embed:"" group:"Kafka:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`

	Device    string `default:"cpu" help:"What computes attention: cpu, or cuda (a GPU, or cuda:N the one of that number; never run on one yet)." placeholder:"KIND"`
	GPUMemory string `name:"gpu-memory" default:"0" help:"Memory to take of the GPU, such as 40GiB: for weights, buffers, keys and values; 0 is nine tenths of what is free." placeholder:"BYTES"`
}

// GateCmd runs a gate.
type GateCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	KafkaFlags     `embed:"" group:"Kafka:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`

	Device string `default:"cpu" help:"What chooses experts: cpu, or cuda (a GPU, or cuda:N the one of that number; never run on one yet), with the same bits." placeholder:"KIND"`
}

// ExpertCmd runs an expert host.
type ExpertCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	ExpertFlags    `embed:""`
	KafkaFlags     `embed:"" group:"Kafka:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`
}

// AggregatorCmd runs an aggregator.
type AggregatorCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`
}

// PredictorCmd runs a predictor.
type PredictorCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	PredictorFlags `embed:""`
	KafkaFlags     `embed:"" group:"Kafka:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`
}

// Run serves until a signal.
func (c *TokenizerCmd) Run(ctx context.Context, e *env) error {
	cfg, err := c.TokenizerFlags.config(c.ModelFlags, e.Prefix)
	edge, wrong := c.EdgeFlags.config(e.Globals)
	return serve(ctx, e, "tokenizer", c.ModelFlags, c.TelemetryFlags, cluster.Services{Tokenizer: cfg, Edge: edge}, errors.Join(err, wrong))
}

// Run serves until a signal.
func (c *AttentionCmd) Run(ctx context.Context, e *env) error {
	on, wrong := gpuFlags{"device", c.Device, "gpu-memory", c.GPUMemory, cpuOrGPU}.open()
	cfg, err := c.AttentionFlags.config(c.ModelFlags, on)
	loads, kafkaless := c.KafkaFlags.config(e.Insecure)
	err = errors.Join(wrong, err, kafkaless)
	return serve(ctx, e, "attention", c.ModelFlags, c.TelemetryFlags, cluster.Services{Attention: cfg, Kafka: loads}, err)
}

// Run serves until a signal.
func (c *GateCmd) Run(ctx context.Context, e *env) error {
	cfg, wrong := gateConfig("device", c.Device)
	loads, err := c.KafkaFlags.config(e.Insecure)
	return serve(ctx, e, "gate", c.ModelFlags, c.TelemetryFlags, cluster.Services{Gate: cfg, Kafka: loads}, errors.Join(wrong, err))
}

// Run serves until a signal.
func (c *ExpertCmd) Run(ctx context.Context, e *env) error {
	cfg, wrong := c.ExpertFlags.config()
	loads, err := c.KafkaFlags.config(e.Insecure)
	return serve(ctx, e, "expert", c.ModelFlags, c.TelemetryFlags, cluster.Services{Expert: cfg, Kafka: loads}, errors.Join(wrong, err))
}

// Run serves until a signal.
func (c *AggregatorCmd) Run(ctx context.Context, e *env) error {
	return serve(ctx, e, "aggregator", c.ModelFlags, c.TelemetryFlags, cluster.Services{}, nil)
}

// Run serves until a signal.
func (c *PredictorCmd) Run(ctx context.Context, e *env) error {
	loads, err := c.KafkaFlags.config(e.Insecure)
	if err == nil && loads == nil {
		e.log.Warn("predictions go nowhere: give --kafka HOST:PORT, as the scaler has it")
	}
	return serve(ctx, e, "predictor", c.ModelFlags, c.TelemetryFlags, cluster.Services{Predictor: c.PredictorFlags.config(), Kafka: loads}, err)
}

// serve runs one service as this process.
func serve(ctx context.Context, e *env, name string, mf ModelFlags, tf TelemetryFlags, s cluster.Services, flagErr error) (err error) {
	if err := errors.Join(flagErr, mf.check()); err != nil {
		return err
	}
	tc := tf.config("switchyard-"+name, mf)
	tellDevice(e, s, mf, &tc)
	n, err := newNode(ctx, e, mf, tc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	n.Bus, n.Shared.TellStages = e.busConfig(), true
	n.Shared.Class = classOf(s, mf)
	count := map[string]int{name: 1}
	if err := s.Check(n.Shared.Model, count); err != nil {
		return usage(err)
	}
	p := cluster.NewPipeline(n, s, count)
	go sayReady(ctx, e, p)
	return stopped(ctx, p.Serve(ctx))
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

// nodeOf is this process's share of an open model.
func nodeOf(e *env, mf ModelFlags, m *model.Model, p *pool.Pool, t *telemetry.Telemetry) *cluster.Node {
	logBytes, _ := mf.logBytes() // checked with the other flags
	return &cluster.Node{Shared: deployment.Settings{
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
