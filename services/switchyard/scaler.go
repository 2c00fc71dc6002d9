package main

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// ScalerCmd runs a scaler.
type ScalerCmd struct {
	ModelFlags     `embed:""`
	ScalingFlags   `embed:""`
	KafkaFlags     `embed:""`
	TelemetryFlags `embed:""`

	Scaling   string        `default:"moeless" help:"Who decides how many replicas experts have: ${live_policies}; with its own settings as in eplb:every=300s (docs/policies.md)." placeholder:"NAME"`
	KeepAlive time.Duration `default:"60s" help:"How long experts without rows, and replicas that are not needed any more, stay loaded." placeholder:"TIME"`
}

// Run serves until a signal.
func (c *ScalerCmd) Run(ctx context.Context, e *env) error {
	cfg, wrong := c.ScalingFlags.config(c.Scaling, c.KeepAlive)
	loads, err := c.KafkaFlags.config(e.Insecure)
	if err == nil && loads == nil {
		err = usage(errors.New("--kafka is missing: give HOST:PORT of the Kafka that gates and hosts send loads to"))
	}
	return serve(ctx, e, "scaler", c.ModelFlags, c.TelemetryFlags, cluster.Services{Scaler: cfg, Kafka: loads}, errors.Join(wrong, err))
}

// ScalingFlags are the scaler's own, but for those that a host has as well.
type ScalingFlags struct {
	CV          float64       `name:"cv" default:"0.2" help:"How unevenly rows may be divided among a layer's replicas before one is added: standard deviation by mean." placeholder:"RATIO"`
	MemoryCap   string        `default:"8GB" help:"Most memory of a layer's replicas beyond the first of each expert." placeholder:"BYTES"`
	Horizon     time.Duration `default:"10s" help:"How long a change may take to save the time that it costs; replicas that are not needed for as long are retired." placeholder:"TIME"`
	MessageTime time.Duration `default:"25us" help:"What one more message makes a layer take; each replica more is a message more in every step. 0s: replicas are added as if messages were free." placeholder:"TIME"`
}

func (f ScalingFlags) config(scaling string, keepAlive time.Duration) (scaler.Config, error) {
	limit, err := parseBytes("memory-cap", f.MemoryCap)
	if err != nil {
		return scaler.Config{}, err
	}
	c := scaler.Config{Scaling: scaling, CV: f.CV, MemoryCap: uint64(limit), KeepAlive: keepAlive, Horizon: f.Horizon, MessageTime: f.MessageTime}
	if err := c.Check(); err != nil {
		return c, usage(err)
	}
	return c, nil
}
