package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// WeightsCmd keeps models in the JetStream object store.
type WeightsCmd struct {
	Push WeightsPushCmd `cmd:"" help:"Put a model into the object store; what is there already is not sent again."`
	Ls   WeightsLsCmd   `cmd:"" help:"List the models in the object store."`
	Rm   WeightsRmCmd   `cmd:"" help:"Remove a model from the object store."`

	Pack   WeightsPackCmd   `cmd:"" help:"Write a packed file beside each .safetensors file: bf16 in two thirds of the bytes, nothing lost."`
	Unpack WeightsUnpackCmd `cmd:"" help:"Write the plain file beside each packed one, for other programs."`
}

// WeightsPushCmd puts a folder into the store.
type WeightsPushCmd struct {
	cli.ConnectFlags `embed:""`
	Name             string `help:"The model's name in the store; default is the directory's name." placeholder:"NAME"`
	Replicas         int    `default:"0" help:"Replicas of the bucket on the NATS cluster; 0 is 1 on one server and 3 on a cluster." placeholder:"N"`
	JSON             bool   `name:"json" help:"Print a JSON object when it is done."`
	Dir              string `arg:"" name:"dir" help:"A Hugging Face model directory."`
}

// WeightsLsCmd lists models.
type WeightsLsCmd struct {
	cli.ConnectFlags `embed:""`
	JSON             bool `name:"json" help:"Print a JSON object a line."`
}

// WeightsRmCmd removes a model.
type WeightsRmCmd struct {
	cli.ConnectFlags `embed:""`
	Name             string `arg:"" name:"name" help:"The model's name in the store."`
}

// Run hashes the folder, sends what is missing, and then the manifest.
func (c *WeightsPushCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	if c.Replicas < 0 || c.Replicas > up.MostReplicas {
		return cli.Usage(fmt.Errorf("--replicas is %d; NATS keeps 1 to %d copies of a stream", c.Replicas, up.MostReplicas))
	}
	if err := weights.CheckName(c.name()); err != nil {
		return cli.Usage(fmt.Errorf("--name: %w", err))
	}
	m, err := up.OpenModel(ctx, e, c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	contents, err := m.Contents()
	if err != nil {
		return cli.Usage(err)
	}
	return e.WithStore(ctx, "weights push", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		return c.push(ctx, e, conn, m, contents)
	})
}

// pushed is what --json prints.
type pushed struct {
	Name    string `json:"name"`
	Model   string `json:"model"` // its hash
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Sent    int64  `json:"sent_bytes"`
}

func (c *WeightsPushCmd) push(ctx context.Context, e *cli.Env, conn *bus.Conn, m *model.Model, contents []model.Content) error {
	line := e.Progress()
	defer line.Clear()
	name := c.name()
	r := pushed{Name: name, Model: m.Hash, Objects: len(contents)}
	err := weights.New(conn, e.Prefix, name).Push(ctx, m.Hash, m.Digests(), contents, weights.PushSettings{
		Replicas: c.Replicas, Progress: func(done, before, total int64) {
			r.Bytes, r.Sent = total, done-before
			line.Set("pushing %s: %d %% of %.1f GB…", name, done*100/max(total, 1), float64(total)/1e9)
		},
	})
	line.Clear()
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil:
		return fmt.Errorf("%w; what was sent is kept, push again to go on", err)
	case c.JSON:
		return json.NewEncoder(e.Out).Encode(r)
	}
	_, err = fmt.Fprintf(e.Out, "%s: %d objects, %s, of which %s were sent now; hash %.12s\nserve it with --model %s%s\n",
		name, r.Objects, cli.Gigabytes(r.Bytes), cli.Gigabytes(r.Sent), m.Hash, up.StoreScheme, name)
	return err
}

func (c *WeightsPushCmd) name() string {
	if c.Name != "" {
		return c.Name
	}
	return model.NameOf(c.Dir)
}

// Run lists whole models, and what is left of pushes that have not ended.
func (c *WeightsLsCmd) Run(ctx context.Context, e *cli.Env) error {
	return e.WithStore(ctx, "weights ls", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		list, err := weights.List(ctx, conn, e.Prefix)
		if err != nil {
			return err
		}
		if c.JSON {
			return printLines(e, list)
		}
		w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tHASH\tOBJECTS\tBYTES\tSTATE")
		for _, m := range list {
			fmt.Fprintf(w, "%s\t%.12s\t%d\t%s\t%s\n", m.Name, m.Model, m.Objects, cli.Gigabytes(m.Bytes), m.State())
		}
		return w.Flush()
	})
}

func printLines[T any](e *cli.Env, list []T) error {
	encoder := json.NewEncoder(e.Out)
	for _, x := range list {
		if err := encoder.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// Run removes a model with all of its objects.
func (c *WeightsRmCmd) Run(ctx context.Context, e *cli.Env) error {
	if err := weights.CheckName(c.Name); err != nil {
		return cli.Usage(err)
	}
	return e.WithStore(ctx, "weights rm", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		return weights.New(conn, e.Prefix, c.Name).Remove(ctx)
	})
}
