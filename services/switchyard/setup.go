package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/provision"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// SetupCmd makes streams and buckets, as the one user who may where the server has users.
type SetupCmd struct {
	up.TelemetryFlags `embed:"" group:"Metrics and traces:"`
	cli.ConnectFlags  `embed:""`

	Model           []string      `default:"demo" help:"Models whose streams and buckets to make: demo, a directory with a config.json, NAME=DIR, NAME=N with how many layers it has, or nats://NAME of the object store." placeholder:"MODEL"`
	Name            string        `help:"The model's name in subjects, where there is one model; default is the directory's name." placeholder:"NAME"`
	Hops            string        `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel, as the services have it: acked, unacked or core." placeholder:"KIND"`
	Replicas        int           `default:"0" help:"Replicas of each stream on the NATS cluster; 0 is 1 on one server and 3 on a cluster." placeholder:"N"`
	LogAge          time.Duration `default:"2h" help:"How long answers are kept, as the services have it." placeholder:"TIME"`
	LogBytes        string        `default:"4GiB" help:"Most bytes that answers take in the token log, as the services have it." placeholder:"BYTES"`
	RowsToPredictor string        `default:"sampled" enum:"sampled,all" help:"Rows that predictors see, as the services have it: sampled or all." placeholder:"KIND"`

	Objects bool `help:"Also make the store of rows on their way, which plans with transfers indirect or pipelined need (switchyard plan set --transfer)."`

	Change []string `help:"Streams to change in all in which they differ, even if that drops what they hold." placeholder:"STREAM"`
	Remake []string `help:"Streams to delete with all that they hold, and to make anew, if they cannot be changed; tensors are all those of tensors, and those that other --hops have are deleted." placeholder:"STREAM"`
	Keep   bool     `help:"Go on, and make streams again that a server has lost."`
	JSON   bool     `name:"json" help:"Print a JSON object for each stream."`
}

// Run makes the streams, says what became of them, and keeps them if it is to.
func (c *SetupCmd) Run(ctx context.Context, e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	models, err := c.models(e.Prefix)
	if err != nil {
		return err
	}
	if c.Keep {
		return up.Stopped(ctx, c.keep(ctx, e, models))
	}
	conn, err := e.Connect(ctx, rights.Setup, c.ConnectFlags)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer cli.TellOutages(e, conn, c.ConnectTimeout)()
	if models, err = c.find(ctx, e, conn, models); err != nil {
		return cli.Explained(conn, err)
	}
	all, err := provision.Make(ctx, conn, c.provision(), models...)
	if err != nil {
		return cli.Explained(conn, err)
	}
	if err := c.print(e.Out, all); err != nil {
		return err
	}
	if left(all) > 0 {
		return &cli.ExitError{Code: cli.ExitFailed, Err: cli.ErrQuiet}
	}
	return nil
}

func (c *SetupCmd) flags() up.ModelFlags {
	return up.ModelFlags{LogAge: c.LogAge, LogBytes: c.LogBytes, Replicas: c.Replicas}
}

func (c *SetupCmd) check() error {
	if c.Name != "" && len(c.Model) != 1 {
		return cli.Usage(fmt.Errorf("--name is %q, of %d models: give NAME=DIR to --model instead", c.Name, len(c.Model)))
	}
	return c.flags().Check()
}

// models returns those whose streams to make, but for the layers of those in the object store.
func (c *SetupCmd) models(prefix string) (models []bus.Model, err error) {
	logBytes, _ := c.flags().LogLimit() // checked
	for _, text := range c.Model {
		m, err := readOrStored(cmp.Or(text, model.DemoName))
		if err != nil {
			return nil, cli.Usage(err)
		}
		names := schemas.NewSubjects(prefix, cmp.Or(c.Name, m.Name))
		streams := schemas.Streams{Subjects: names, Hops: schemas.Hops(c.Hops), LogAge: c.LogAge, LogBytes: logBytes, AllRows: c.RowsToPredictor == up.AllRows, Moved: c.Objects}
		if m.Positions > 0 {
			streams.PromptBytes = schemas.MaxPrompt(m.Positions)
		}
		models = append(models, bus.Model{Streams: streams, MoELayers: m.MoELayers})
	}
	return models, c.checkNamed(models)
}

// readOrStored reads what a model is, unless that is in the object store.
func readOrStored(text string) (rights.Model, error) {
	name, stored := up.ModelFlags{Model: []string{text}}.InStore()
	if !stored {
		return readModel(text)
	}
	return rights.Model{Name: name}, up.ModelFlags{Model: []string{text}}.CheckStored(name)
}

// find adds the layers of the models that are in the object store. It makes the places of
// those that nobody has pushed yet, and waits for them if it is to keep streams.
func (c *SetupCmd) find(ctx context.Context, e *cli.Env, conn *bus.Conn, models []bus.Model) ([]bus.Model, error) {
	found := slices.Clone(models)
	for i, text := range c.Model {
		name, stored := up.ModelFlags{Model: []string{text}}.InStore()
		if !stored {
			continue
		}
		if _, err := conn.Provide(ctx, c.provision(), bus.WantObjects(schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, name)}.Bucket("weights"))); err != nil {
			return nil, err
		}
		m, err := c.stored(ctx, e, conn, name)
		if err != nil {
			return nil, err
		}
		found[i].MoELayers = deployment.MoELayers(m)
		found[i].Streams.PromptBytes = schemas.MaxPrompt(m.Spec.LongestRequest())
	}
	return found, nil
}

// stored opens a model of the object store. It is not closed, as it has nothing but the
// connection.
func (c *SetupCmd) stored(ctx context.Context, e *cli.Env, conn *bus.Conn, name string) (*model.Model, error) {
	for said := false; ; said = true {
		m, err := weights.OpenNow(ctx, conn, e.Prefix, name, e.Log)
		if err == nil || !c.Keep || !errors.Is(err, weights.ErrNoModel) {
			return m, err
		}
		if !said {
			e.Log.Warn("waiting until the model is in the object store", "model", name, "error", err)
		}
		if pause.For(ctx, lookForStored) != nil {
			return nil, err
		}
	}
}

// lookForStored is how often somebody looks whether a model was pushed.
const lookForStored = time.Second

// checkNamed refuses to change what is not of the models.
func (c *SetupCmd) checkNamed(models []bus.Model) error {
	known := []string{bus.Tensors}
	var unused []string
	for _, m := range models {
		if m.MoELayers == nil {
			return nil // it is in the object store: nobody knows its layers yet
		}
		for _, want := range deployment.Wanted(m.Streams, m.MoELayers) {
			known = append(known, want.Name)
		}
		unused = append(unused, m.Streams.Unused(m.MoELayers)...)
	}
	for _, stream := range slices.Concat(c.Change, c.Remake) {
		switch {
		case slices.Contains(known, stream):
		case slices.Contains(unused, stream):
			return cli.Usage(fmt.Errorf("--change or --remake is %q, which %s has with other --hops alone: --remake %s deletes it", stream, named(models, ", "), bus.Tensors))
		default:
			return cli.Usage(fmt.Errorf("--change or --remake is %q, which is no stream of %s", stream, named(models, ", ")))
		}
	}
	return nil
}

func named(models []bus.Model, between string) string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Streams.Subjects.Model
	}
	return strings.Join(names, between)
}

func (c *SetupCmd) provision() bus.Provision {
	return bus.Provision{Replicas: c.Replicas, Change: c.Change, Remake: c.Remake}
}

// keep runs until a signal.
func (c *SetupCmd) keep(ctx context.Context, e *cli.Env, models []bus.Model) error {
	tc := c.TelemetryFlags.Config("switchyard-setup", up.ModelFlags{Name: named(models, "_")})
	if err := tc.Validate(); err != nil {
		return cli.Usage(err)
	}
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return cli.Usage(err)
	}
	s := provision.New(provision.Settings{
		How: c.provision(), Logger: e.Log.With("service", rights.Setup), Told: func(all []bus.Provided) { c.tell(e, all) },
		Find: func(ctx context.Context, conn *bus.Conn) ([]bus.Model, error) { return c.find(ctx, e, conn, models) },
		Connect: func(ctx context.Context) (*bus.Conn, error) {
			return bus.Connect(ctx, e.BusConfig(), bus.Settings{Name: "switchyard " + rights.Setup, Logger: e.Log, Release: cli.Version})
		},
	})
	t.Watch(s)
	return errors.Join(lifecycle.Run(ctx, lifecycle.NewGroup("switchyard", t, s), cluster.DrainTime), t.Close()) //nolint:contextcheck // as Setup
}

// tell says what became of the streams, and that a service may start.
func (c *SetupCmd) tell(e *cli.Env, all []bus.Provided) {
	_ = c.print(e.Out, all) // nobody reads it
	for _, p := range all {
		for _, d := range p.Left {
			e.Log.Warn("a stream differs, and is left so", "stream", d.Stream, "field", d.Field, "have", d.Have, "want", d.Want, "command", d.Command())
		}
	}
	e.Say("ready\n", "ready")
}

func left(all []bus.Provided) (n int) {
	for _, p := range all {
		n += min(len(p.Left), 1)
	}
	return n
}

// provided is what --json prints of a stream.
type provided struct {
	Stream string `json:"stream"`
	State  string `json:"state"` // made, mended, differs, there or deleted
	// Differences are those that were mended, and those that are left.
	Differences []differing `json:"differences"`
}

type differing struct {
	Field   string `json:"field"`
	Have    string `json:"have"`
	Want    string `json:"want"`
	Mended  bool   `json:"mended"`
	Command string `json:"command"` // mends it
}

func (c *SetupCmd) print(out io.Writer, all []bus.Provided) error {
	if c.JSON {
		return printProvided(out, all)
	}
	var b strings.Builder
	count := map[string]int{}
	for _, p := range all {
		r := describe(p)
		count[r.State]++
		if r.State == stateMade || r.State == stateGone {
			fmt.Fprintf(&b, "%s: %s\n", r.Stream, r.State)
		}
		for _, d := range r.Differences {
			if d.Mended {
				fmt.Fprintf(&b, "%s: changed %s %s to %s\n", r.Stream, d.Field, d.Have, d.Want)
			} else {
				fmt.Fprintf(&b, "%s: has %s %s where %s is wanted: %s\n", r.Stream, d.Field, d.Have, d.Want, d.Command)
			}
		}
	}
	fmt.Fprintf(&b, "%d streams: %d made, %d changed, %d differ\n", len(all)-count[stateGone], count[stateMade], count[stateMended], count[stateDiffers])
	_, err := io.WriteString(out, b.String())
	return err
}

func printProvided(out io.Writer, all []bus.Provided) error {
	encoder := json.NewEncoder(out)
	for _, p := range all {
		if err := encoder.Encode(describe(p)); err != nil {
			return err
		}
	}
	return nil
}

// States of a stream.
const stateMade, stateMended, stateDiffers, stateThere, stateGone = "made", "mended", "differs", "there", "deleted"

func describe(p bus.Provided) provided {
	r := provided{Stream: p.Stream.Name, State: stateThere, Differences: []differing{}}
	for _, d := range p.Mended {
		r.State, r.Differences = stateMended, append(r.Differences, differing{d.Field, d.Have, d.Want, true, d.Command()})
	}
	for _, d := range p.Left {
		r.State, r.Differences = stateDiffers, append(r.Differences, differing{d.Field, d.Have, d.Want, false, d.Command()})
	}
	switch {
	case p.Made:
		r.State = stateMade
	case p.Gone:
		r.State = stateGone
	}
	return r
}
