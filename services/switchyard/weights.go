package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/weights"
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
	ConnectFlags `embed:""`
	Name         string `help:"The model's name in the store; default is the directory's name." placeholder:"NAME"`
	Replicas     int    `default:"0" help:"Replicas of the bucket on the NATS cluster; 0 is 1 on one server and 3 on a cluster." placeholder:"N"`
	JSON         bool   `name:"json" help:"Print a JSON object when it is done."`
	Dir          string `arg:"" name:"dir" help:"A Hugging Face model directory."`
}

// WeightsLsCmd lists models.
type WeightsLsCmd struct {
	ConnectFlags `embed:""`
	JSON         bool `name:"json" help:"Print a JSON object a line."`
}

// WeightsRmCmd removes a model.
type WeightsRmCmd struct {
	ConnectFlags `embed:""`
	Name         string `arg:"" name:"name" help:"The model's name in the store."`
}

// Run hashes the folder, sends what is missing, and then the manifest.
func (c *WeightsPushCmd) Run(ctx context.Context, e *env) (err error) {
	if c.Replicas < 0 || c.Replicas > mostReplicas {
		return usage(fmt.Errorf("--replicas is %d; NATS keeps 1 to %d copies of a stream", c.Replicas, mostReplicas))
	}
	if err := weights.CheckName(c.name()); err != nil {
		return usage(fmt.Errorf("--name: %w", err))
	}
	m, err := openModel(ctx, e, c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	contents, err := m.Contents()
	if err != nil {
		return usage(err)
	}
	return e.withStore(ctx, "weights push", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
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

func (c *WeightsPushCmd) push(ctx context.Context, e *env, conn *bus.Conn, m *model.Model, contents []model.Content) error {
	line := e.progress()
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
		return json.NewEncoder(e.out).Encode(r)
	}
	_, err = fmt.Fprintf(e.out, "%s: %d objects, %s, of which %s were sent now; hash %.12s\nserve it with --model %s%s\n",
		name, r.Objects, gigabytes(r.Bytes), gigabytes(r.Sent), m.Hash, storeScheme, name)
	return err
}

func (c *WeightsPushCmd) name() string {
	if c.Name != "" {
		return c.Name
	}
	return model.NameOf(c.Dir)
}

func gigabytes(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// Run lists whole models, and what is left of pushes that have not ended.
func (c *WeightsLsCmd) Run(ctx context.Context, e *env) error {
	return e.withStore(ctx, "weights ls", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		list, err := weights.List(ctx, conn, e.Prefix)
		if err != nil {
			return err
		}
		if c.JSON {
			return printLines(e, list)
		}
		w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tHASH\tOBJECTS\tBYTES\tSTATE")
		for _, m := range list {
			fmt.Fprintf(w, "%s\t%.12s\t%d\t%s\t%s\n", m.Name, m.Model, m.Objects, gigabytes(m.Bytes), m.State())
		}
		return w.Flush()
	})
}

func printLines[T any](e *env, list []T) error {
	encoder := json.NewEncoder(e.out)
	for _, x := range list {
		if err := encoder.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// Run removes a model with all of its objects.
func (c *WeightsRmCmd) Run(ctx context.Context, e *env) error {
	if err := weights.CheckName(c.Name); err != nil {
		return usage(err)
	}
	return e.withStore(ctx, "weights rm", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		return weights.New(conn, e.Prefix, c.Name).Remove(ctx)
	})
}

// withStore connects and runs do, which ends when the server has been away for
// too long.
func (e *env) withStore(ctx context.Context, name string, f ConnectFlags, do func(context.Context, *bus.Conn) error) error {
	conn, err := e.connect(ctx, name, f)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer tellOutages(e, conn, f.ConnectTimeout)()
	doing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go giveUp(doing, conn, f.ConnectTimeout, cancel)
	err = do(doing, conn)
	switch {
	case err != nil && ctx.Err() != nil:
		return &exitError{exitInterrupted, err}
	case err != nil && !errors.Is(err, bus.ErrNoConnection) && errors.Is(context.Cause(doing), bus.ErrNoConnection):
		return fmt.Errorf("%w: %w", bus.ErrNoConnection, err)
	}
	return explained(conn, err)
}

// giveUp ends ctx when there is no connection for so long.
func giveUp(ctx context.Context, conn *bus.Conn, limit time.Duration, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(tellPoll)
	defer tick.Stop()
	for seen := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if conn.Connected() {
				seen = now
			} else if now.Sub(seen) > limit {
				cancel(bus.ErrNoConnection)
				return
			}
		}
	}
}

// storeScheme begins the name of a model that is in the object store.
const storeScheme = "nats://"

// inStore is the name of a model in the object store, if that is where it is.
func (f ModelFlags) inStore() (name string, ok bool) { return strings.CutPrefix(f.dir(), storeScheme) }

// checkStored refuses what is no name in the object store.
func (f ModelFlags) checkStored(name string) error {
	if err := weights.CheckName(name); err != nil {
		return fmt.Errorf("--model is %q, but it is %sNAME, and the server is --nats; switchyard weights ls says which models there are: %w", f.dir(), storeScheme, err)
	}
	return nil
}

// openStored opens a model of the object store, over a connection of its own.
type openStored func(ctx context.Context, e *env, name string) (*model.Model, error)

// awaitStored is of services, which wait for the server as for everything else.
func awaitStored(ctx context.Context, e *env, name string) (*model.Model, error) {
	conn, err := bus.Connect(ctx, e.busConfig(), bus.Settings{Name: "switchyard weights", Logger: e.log})
	if err != nil {
		return nil, err
	}
	m, err := weights.Open(ctx, conn, e.Prefix, name, e.log)
	if err != nil {
		conn.Close()
	}
	return m, err
}

// storedWithin is how long other commands wait for a server.
const storedWithin = 10 * time.Second

// openStoredNow is of commands that are no service.
func openStoredNow(ctx context.Context, e *env, name string) (*model.Model, error) {
	conn, err := e.connect(ctx, "weights", ConnectFlags{ConnectTimeout: storedWithin})
	if err != nil {
		return nil, err
	}
	m, err := weights.OpenNow(ctx, conn, e.Prefix, name, e.log)
	if err != nil {
		err = explained(conn, err)
		conn.Close()
	}
	return m, err
}
