package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/schemas"
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
	y, err := openCluster(ctx, settings)
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

func (c *UpCmd) settings(ctx context.Context, e *env) (s clusterSettings, err error) {
	if s.makers, err = c.makers(e.Prefix); err != nil {
		return s, err
	}
	s.count, s.listen, s.data, s.insecure, s.sync = one(), c.Listen, c.Data, e.Insecure, c.Sync
	if s.node, err = newNode(ctx, e, c.ModelFlags, c.TelemetryFlags.config("switchyard", c.ModelFlags)); err != nil {
		return s, err
	}
	if err := s.check(s.node.model, s.count); err != nil {
		return s, errors.Join(err, s.node.close())
	}
	return s, nil
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
func (c *UpCmd) greet(e *env, y *cluster) {
	n := y.settings.node
	_, text := n.model.File("tokenizer.json")
	_, _ = fmt.Fprint(e.err, greeting(y.server.URL(), e.Prefix, n.modelName(), text)) // nowhere to complain
}

// greeting has commands that work as they stand. A model without a tokenizer
// is asked with token ids.
func greeting(url, prefix, model string, text bool) string {
	common := "--nats " + url + " --model " + model
	if prefix != schemas.DefaultPrefix {
		common += " --prefix " + prefix
	}
	// A text answer ends with an empty message; a JSON one does not, so that the
	// tool ends by its own clock.
	prompt, ask, pause := `"Once upon a time"`, "'Once upon a time'", "60s"
	if !text {
		prompt, ask, pause = "--ids 1,2,3", `'{"input_ids":[1,2,3]}'`, "5s"
	}
	return fmt.Sprintf(`ready
model %s is served at %s

  switchyard prompt %s %s
  nats req -s %s %s.ask.%s %s --wait-for-empty --raw --timeout 60s --reply-timeout %s
  switchyard top %s
`, model, url, common, prompt, url, prefix, model, ask, pause, common)
}
