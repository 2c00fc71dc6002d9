package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// DemoCmd shows the main job on embedded defaults. It opens no port, but with --kill one on the
// loopback, for the processes that it kills.
type DemoCmd struct {
	cli.KernelsFlag `embed:""`

	MaxTokens *int32 `help:"Most tokens to generate." placeholder:"N"`
	Kill      bool   `help:"Run attention in processes of its own, kill the one that makes the answer in the middle of it, and compare with an answer that nothing disturbs."`
	// process starts this program with arguments, in tests another one; nil: it is where the
	// system says.
	process func(context.Context, ...string) *exec.Cmd

	Text string `arg:"" optional:"" default:"Once upon a time" help:"The prompt."`
}

// Run starts everything in this process, streams one answer, and stops.
func (c *DemoCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	e.Quiet()
	if c.Kill {
		return c.kill(ctx, e)
	}
	began := time.Now()
	settings, err := up.InProcess(ctx, e, func(*up.Cmd) {})
	if err != nil {
		return err
	}
	y, err := up.OpenCluster(ctx, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if err := y.Ready(ctx); err != nil {
		return err
	}
	took := time.Since(began).Round(time.Millisecond)
	e.Say(fmt.Sprintf("ready in %v: NATS, tokenizer, attention, gate, expert host and aggregator in one process\n\n", took), "ready", "seconds", took.Seconds())
	producer, stop, err := y.Client(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return c.ask(ctx, e, producer)
}

// ask sends what `prompt` sends without further flags, so that the two give the same text.
func (c *DemoCmd) ask(ctx context.Context, e *cli.Env, producer *client.Client) error {
	stream, err := producer.Prompt(ctx, &pb.Prompt{Text: c.Text, MaxTokens: c.MaxTokens})
	if err != nil {
		return err
	}
	out := &chunkPrinter{w: e.Out}
	out.write([]byte(c.Text))
	for chunk, err := range stream.Chunks() {
		if err != nil {
			return err
		}
		if out.print(chunk); out.broken != nil {
			return out.broken
		}
		if chunk.FinishReason != "" {
			out.write([]byte("\n\n"))
			if err := errors.Join(client.Failure(chunk), out.broken); err != nil {
				return err
			}
			e.Say(pace(chunk)+"\n", "answered", measures(chunk)...)
			return nil
		}
	}
	return errors.New("the answer ended without a last chunk")
}
