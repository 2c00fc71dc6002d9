package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/schemas"
)

// TopCmd shows what a model's services do.
type TopCmd struct {
	Model string `default:"demo" help:"Model to show." placeholder:"NAME"`
	Once  bool   `help:"Print one snapshot and end, as in a pipe."`
	JSON  bool   `name:"json" help:"Print one snapshot as a JSON object and end."`

	ConnectFlags `embed:""`
}

const (
	topPause = time.Second
	// topPatience bounds the wait for one snapshot.
	topPatience = 5 * time.Second

	clearScreen = "\x1b[H\x1b[2J"
)

// Run shows snapshots each second on a terminal, else one. It reads NATS only.
func (c *TopCmd) Run(ctx context.Context, e *env) error {
	conn, err := e.connect(ctx, "top", c.ConnectFlags)
	if err != nil {
		return err
	}
	defer conn.Close()
	look := &lookout{js: conn.JetStream(), streams: schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, c.Model)}}
	if c.Once || c.JSON || !isTerminal(e.out) {
		return c.once(ctx, e, look)
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	restore, err := rawKeys(e, quit)
	if err != nil {
		return err
	}
	return errors.Join(c.live(ctx, e, look), restore())
}

func (c *TopCmd) once(ctx context.Context, e *env, look *lookout) error {
	now, err := look.snapshot(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e, now)
	}
	return show(e, now.table(nil))
}

// live redraws until q or a signal, which is how it is meant to end.
func (c *TopCmd) live(ctx context.Context, e *env, look *lookout) error {
	tick := time.NewTicker(topPause)
	defer tick.Stop()
	var before *snapshot
	for {
		now, err := look.snapshot(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && before == nil:
			return err
		case err != nil: // the next one may work
			err = show(e, screen("no news: "+err.Error()+"\n\n"+before.table(nil)))
		default:
			err = show(e, screen(now.table(before)))
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

// screen is a whole page of the terminal. In raw mode it needs returns, too.
func screen(text string) string {
	return clearScreen + strings.ReplaceAll(text+"\nq quits\n", "\n", "\r\n")
}

func show(e *env, text string) error {
	if _, err := fmt.Fprint(e.out, text); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// writeJSON prints one object on a line.
func writeJSON(e *env, v any) error {
	if err := json.NewEncoder(e.out).Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
