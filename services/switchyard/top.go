package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// TopCmd shows what a model's services do.
type TopCmd struct {
	Model string `default:"demo" help:"Model to show." placeholder:"NAME"`
	Once  bool   `help:"Print one snapshot and end, as in a pipe."`
	JSON  bool   `name:"json" help:"Print one snapshot as a JSON object and end."`

	Span time.Duration `default:"2s" help:"How long one snapshot waits at most for hosts to tell what their experts have computed; they answer within about a second." placeholder:"TIME"`

	ConnectFlags `embed:""`
}

const topPause = time.Second

// Run shows snapshots each second on a terminal, else one. It reads NATS only.
func (c *TopCmd) Run(ctx context.Context, e *env) error {
	if c.Span < 0 {
		return usage(fmt.Errorf("--span is %v; it must be 0 or more", c.Span))
	}
	conn, err := e.connect(ctx, "top", c.ConnectFlags)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := top.NewReader(conn.NATS(), conn.JetStream(), schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, c.Model)})
	defer r.Close()
	if c.Once || c.JSON || !terminal.Is(e.out) {
		return explained(conn, c.once(ctx, e, r))
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	restore, err := terminal.Keys(e.in, quit)
	if err != nil {
		return err
	}
	return errors.Join(explained(conn, live(ctx, e, r)), restore())
}

// once looks twice: the first look asks the hosts for their experts' loads.
func (c *TopCmd) once(ctx context.Context, e *env, r *top.Reader) error {
	if _, err := r.Snapshot(ctx); err != nil {
		return err
	}
	r.Await(ctx, c.Span)
	if ctx.Err() != nil {
		return errInterrupted
	}
	now, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	return show(e, c.JSON, now, now.View(nil))
}

// live redraws until q or a signal, which is how it is meant to end.
func live(ctx context.Context, e *env, r *top.Reader) error {
	tick := time.NewTicker(topPause)
	defer tick.Stop()
	var before *top.Snapshot
	for {
		now, err := r.Snapshot(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && before == nil:
			return err
		case err != nil: // the next one may work
			err = draw(e, "reading failed: "+err.Error()+"\n\n"+before.View(nil))
		default:
			err = draw(e, now.View(before))
			before = now
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func draw(e *env, text string) error {
	return show(e, false, nil, terminal.Page(text+"\nq quits\n"))
}
