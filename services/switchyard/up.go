package main

import (
	"context"
	"errors"
	"fmt"
)

// UpCmd runs everything in one process.
type UpCmd struct {
	ModelFlags     `embed:""`
	AttentionFlags `embed:""`
	ExpertFlags    `embed:""`
	TokenizerFlags `embed:""`
	TelemetryFlags `embed:""`

	Data   string `help:"Folder that keeps accepted requests over restarts; without it a temporary one that is removed." placeholder:"DIR"`
	Sync   bool   `help:"Write through to the disk before anything is acknowledged, so that a power cut loses nothing either; slower."`
	Listen string `default:"127.0.0.1:4222" help:"host:port where clients reach the embedded NATS server." placeholder:"ADDR"`
}

// Run serves until a signal.
func (c *UpCmd) Run(ctx context.Context, e *env) (err error) {
	settings, err := c.settings(ctx, e)
	if err != nil {
		return err
	}
	y, err := openYard(ctx, settings)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, stopped(ctx, y.close())) }()
	if err := y.ready(ctx); err != nil {
		return stopped(ctx, err)
	}
	c.greet(e, y)
	return stopped(ctx, y.wait())
}

func (c *UpCmd) settings(ctx context.Context, e *env) (s yardSettings, err error) {
	if s.makers, err = c.makers(e.Prefix); err != nil {
		return s, err
	}
	s.node, err = newNode(ctx, e, c.ModelFlags, c.TelemetryFlags.config("switchyard"))
	s.count, s.listen, s.data, s.insecure, s.sync = one(), c.Listen, c.Data, e.Insecure, c.Sync
	return s, err
}

func (c *UpCmd) makers(prefix string) (m makers, err error) {
	var errs [4]error
	m.attention, errs[0] = c.AttentionFlags.config(c.ModelFlags)
	m.expert, errs[1] = c.ExpertFlags.config()
	m.tokenizer, errs[2] = c.TokenizerFlags.config(c.ModelFlags, prefix)
	errs[3] = c.ModelFlags.check()
	return m, errors.Join(errs[:]...)
}

// greet says how to talk to what runs.
func (c *UpCmd) greet(e *env, y *yard) {
	name := y.settings.node.modelName()
	_, _ = fmt.Fprintf(e.err, `ready
model %s is served at %s

  switchyard prompt --nats %s --model %s "Once upon a time"
  nats req -s %s %s.ask.%s 'Once upon a time' --wait-for-empty --raw --timeout 60s
  switchyard top --nats %s
`, name, y.server.URL(), y.server.URL(), name, y.server.URL(), e.Prefix, name, y.server.URL())
}
