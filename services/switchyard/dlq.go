package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/dlq"
)

// DLQCmd looks after messages that services have given up.
type DLQCmd struct {
	Ls    DLQLsCmd    `cmd:"" help:"List what was given up, the oldest first."`
	Show  DLQShowCmd  `cmd:"" help:"Print a message that was given up, with its headers."`
	Retry DLQRetryCmd `cmd:"" help:"Send a message that was given up again, and remove it here."`
	Drop  DLQDropCmd  `cmd:"" help:"Remove what was given up."`
}

// DLQFrom says of which model.
type DLQFrom struct {
	Model string `default:"demo" help:"Model of the messages." placeholder:"NAME"`

	cli.ConnectFlags `embed:""`
}

// DLQLsCmd lists letters.
type DLQLsCmd struct {
	DLQFrom `embed:""`
	JSON    bool `name:"json" help:"Print a JSON object a line."`
}

// DLQShowCmd prints one.
type DLQShowCmd struct {
	DLQFrom `embed:""`
	JSON    bool   `name:"json" help:"Print a JSON object."`
	Seq     uint64 `arg:"" name:"seq" help:"Its number, as dlq ls prints it."`
}

// DLQRetryCmd sends one again.
type DLQRetryCmd struct {
	DLQFrom `embed:""`
	Seq     uint64 `arg:"" name:"seq" help:"Its number, as dlq ls prints it."`
}

// DLQDropCmd removes letters.
type DLQDropCmd struct {
	DLQFrom `embed:""`
	All     bool    `help:"Remove all that there are."`
	Seq     *uint64 `arg:"" optional:"" name:"seq" help:"Its number, as dlq ls prints it."`
}

// with opens the letters and calls do.
func (f DLQFrom) with(ctx context.Context, e *cli.Env, do func(context.Context, *dlq.Letters) error) error {
	return e.WithStore(ctx, "dlq", f.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		letters, err := dlq.Open(ctx, conn, schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, f.Model)}, f.ConnectTimeout)
		if err != nil {
			return err
		}
		return do(ctx, letters)
	})
}

// Run lists letters.
func (c *DLQLsCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.with(ctx, e, func(ctx context.Context, letters *dlq.Letters) error {
		if c.JSON {
			encoder := json.NewEncoder(e.Out)
			return letters.Each(ctx, func(l *dlq.Letter) error { return encoder.Encode(l) })
		}
		table := dlq.NewTable(e.Out)
		err := letters.Each(ctx, func(l *dlq.Letter) error { table.Add(l); return nil })
		return errors.Join(err, table.Flush())
	})
}

// Run prints a letter.
func (c *DLQShowCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.with(ctx, e, func(ctx context.Context, letters *dlq.Letters) error {
		l, err := letters.Get(ctx, c.Seq)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return json.NewEncoder(e.Out).Encode(l.Content())
		}
		_, err = fmt.Fprint(e.Out, l.Content().Text())
		return err
	})
}

// Run sends a letter's message again.
func (c *DLQRetryCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.with(ctx, e, func(ctx context.Context, letters *dlq.Letters) error {
		l, err := letters.Retry(ctx, c.Seq)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Out, "letter %d is on %s again\n", c.Seq, l.Subject)
		return err
	})
}

// Run removes letters.
func (c *DLQDropCmd) Run(ctx context.Context, e *cli.Env) error {
	if (c.Seq == nil) != c.All {
		return cli.Usage(errors.New("name one letter, or --all of them"))
	}
	return c.with(ctx, e, func(ctx context.Context, letters *dlq.Letters) error {
		if c.All {
			return letters.DropAll(ctx)
		}
		if _, err := letters.Get(ctx, *c.Seq); err != nil {
			return err
		}
		return letters.Drop(ctx, *c.Seq)
	})
}
