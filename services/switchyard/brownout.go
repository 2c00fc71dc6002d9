package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// BrownoutCmd shows how far a brownout goes, and sets that.
type BrownoutCmd struct {
	Get  BrownoutGetCmd  `cmd:"" help:"Print the thresholds in force, and why they are what they are."`
	Set  BrownoutSetCmd  `cmd:"" help:"Set thresholds, which stay then, or how many experts a united expert stands in for."`
	Auto BrownoutAutoCmd `cmd:"" help:"Leave the thresholds to the controller, which goes by what steps take."`
	Off  BrownoutOffCmd  `cmd:"" help:"Have every row computed by its own experts until something else is set."`
}

// BrownoutOf says which model's.
type BrownoutOf struct {
	Model string `default:"demo" help:"Model whose brownouts." placeholder:"NAME"`
	JSON  bool   `name:"json" help:"Print a JSON object."`

	cli.ConnectFlags `embed:""`
}

// BrownoutGetCmd prints.
type BrownoutGetCmd struct {
	BrownoutOf `embed:""`
}

// BrownoutSetCmd sets thresholds.
type BrownoutSetCmd struct {
	BrownoutOf `embed:""`

	Prefill *float64 `env:"-" help:"Least share of routed rows of prompts that keep their own experts, 0 to 1." placeholder:"SHARE"`
	Decode  *float64 `env:"-" help:"The same of rows of answers." placeholder:"SHARE"`
	Way     *int     `env:"-" help:"How many experts a united expert stands in for; without thresholds these stay as they are." placeholder:"N"`
}

// BrownoutAutoCmd leaves them to the controller.
type BrownoutAutoCmd struct {
	BrownoutOf `embed:""`
}

// BrownoutOffCmd ends brownouts.
type BrownoutOffCmd struct {
	BrownoutOf `embed:""`
}

// open connects to the bucket of a model's directives.
func (f BrownoutOf) open(ctx context.Context, e *cli.Env) (*bus.Conn, jetstream.KeyValue, error) {
	conn, err := e.Connect(ctx, "brownout", f.ConnectFlags)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.ConnectTimeout)
	defer cancel()
	names := schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, f.Model)}
	kv, err := conn.JetStream().KeyValue(ctx, names.Bucket("brownout"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = fmt.Errorf("no replica of this release has served model %q here under prefix %q; check --model, or start it with `switchyard up`", f.Model, e.Prefix)
	} else if err != nil {
		err = fmt.Errorf("opening the bucket of brownouts: %w", err)
	}
	if err != nil {
		defer conn.Close()
		return nil, nil, cli.Explained(conn, err)
	}
	return conn, kv, nil
}

// Run prints what is in force.
func (c *BrownoutGetCmd) Run(ctx context.Context, e *cli.Env) error {
	conn, kv, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	d, s, err := directives.Read(ctx, kv)
	if err != nil {
		return cli.Explained(conn, err)
	}
	return printBrownout(e.Out, c.Model, d, s, c.JSON)
}

// Run leaves thresholds to the controller.
func (c *BrownoutAutoCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.apply(ctx, e, inMode(pb.BrownoutMode_BROWNOUT_MODE_AUTO), nil)
}

// Run ends brownouts.
func (c *BrownoutOffCmd) Run(ctx context.Context, e *cli.Env) error {
	return c.apply(ctx, e, inMode(pb.BrownoutMode_BROWNOUT_MODE_OFF), nil)
}

func inMode(mode pb.BrownoutMode) func(*pb.BrownoutSettings) *pb.BrownoutSettings {
	return func(old *pb.BrownoutSettings) *pb.BrownoutSettings {
		return &pb.BrownoutSettings{Mode: mode, Way: old.Way}
	}
}

// takenUpWithin bounds the wait for the controller, which decides four times a second.
const takenUpWithin = 5 * time.Second

// apply writes what is wanted, waits until it is in force, and prints that. What refuse, unless it is nil, has an
// error for is taken back.
func (f BrownoutOf) apply(ctx context.Context, e *cli.Env, change func(*pb.BrownoutSettings) *pb.BrownoutSettings, refuse func(*pb.Directive) error) error {
	conn, kv, err := f.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	writing, cancel := context.WithTimeout(ctx, f.ConnectTimeout)
	defer cancel()
	var before, wrote *pb.BrownoutSettings
	revision, err := directives.Change(writing, kv, func(old *pb.BrownoutSettings) *pb.BrownoutSettings {
		before = proto.CloneOf(old)
		wrote = change(old)
		return wrote
	})
	if err != nil {
		return cli.Explained(conn, err)
	}
	waiting, cancel := context.WithTimeout(ctx, takenUpWithin)
	defer cancel()
	d, err := directives.Await(waiting, kv, revision)
	if errors.Is(err, directives.ErrUnfollowed) && ctx.Err() == nil {
		return fmt.Errorf("set, but %w within %v: no attention replica of model %s was started with --brownout partial or full", err, takenUpWithin, f.Model)
	}
	if err != nil {
		return cli.Explained(conn, err)
	}
	if refuse != nil {
		if err := refuse(d); err != nil {
			revision, undone := directives.Change(writing, kv, func(now *pb.BrownoutSettings) *pb.BrownoutSettings { return without(now, wrote, before) })
			if undone == nil {
				_, undone = directives.Await(waiting, kv, revision)
			}
			return errors.Join(err, cli.Explained(conn, undone))
		}
	}
	_, s, err := directives.Read(writing, kv)
	if err != nil {
		return cli.Explained(conn, err)
	}
	return printBrownout(e.Out, f.Model, d, s, f.JSON)
}

// without returns what is wanted when what a command wrote is taken back: all is as before, or, where another operator
// has changed it since, the way alone.
func without(now, wrote, before *pb.BrownoutSettings) *pb.BrownoutSettings {
	if proto.Equal(now, wrote) {
		return before
	}
	if now.Way == wrote.Way {
		now.Way = before.Way
	}
	return now
}

// Brownout is what is in force, as JSON.
type Brownout struct {
	Model    string   `json:"model"`
	Mode     string   `json:"mode"`
	Version  uint64   `json:"version"` // 0: no controller has written any
	Strategy string   `json:"strategy,omitempty"`
	Way      uint32   `json:"way"`
	Prefill  float64  `json:"prefill"`
	Decode   float64  `json:"decode"`
	Floor    float64  `json:"floor"`
	Floored  bool     `json:"floored"`
	Exempt   []uint32 `json:"exempt"`
	Bundle   string   `json:"bundle,omitempty"`
	Writer   string   `json:"writer,omitempty"`
	Reason   string   `json:"reason,omitempty"`
}

// printBrownout prints what is in force; s is what was set, nil: nothing.
func printBrownout(w io.Writer, model string, d *pb.Directive, s *pb.BrownoutSettings, asJSON bool) error {
	b := brownoutOf(model, d, s)
	if asJSON {
		return json.NewEncoder(w).Encode(b)
	}
	if b.Version == 0 {
		_, err := fmt.Fprintf(w, "model %s: no controller has written a directive; attention replicas run one with --brownout partial or full\n", model)
		return err
	}
	_, err := fmt.Fprintf(w, "model %s: %s, %s, way %d, prefill %.3f, decode %.3f, floor %.3f\nversion %d by %s: %s\n",
		model, b.Mode, b.Strategy, b.Way, b.Prefill, b.Decode, b.Floor, b.Version, b.Writer, b.Reason)
	return err
}

func brownoutOf(model string, d *pb.Directive, s *pb.BrownoutSettings) Brownout {
	share := func(millionths uint32) float64 { return float64(millionths) / brownout.One }
	b := Brownout{Model: model, Mode: "auto", Prefill: 1, Decode: 1, Exempt: []uint32{}}
	switch s.GetMode() {
	case pb.BrownoutMode_BROWNOUT_MODE_SET:
		b.Mode = "set"
	case pb.BrownoutMode_BROWNOUT_MODE_OFF:
		b.Mode = "off"
	}
	if d == nil {
		return b
	}
	b.Version, b.Way, b.Prefill, b.Decode = d.Version, d.Way, share(d.PrefillMillionths), share(d.DecodeMillionths)
	b.Strategy, b.Floor, b.Floored = brownout.Strategy(d.Strategy).String(), share(d.FloorMillionths), d.Floored
	b.Exempt, b.Writer, b.Reason = append(b.Exempt, d.Exempt...), terminal.Clean(d.Writer), terminal.Clean(d.Reason)
	if d.Bundle != 0 {
		b.Bundle = fmt.Sprintf("%016x", d.Bundle)
	}
	return b
}
