package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/plans"
)

// PlanCmd shows a model's plan and changes what plans are to be like.
type PlanCmd struct {
	Get   PlanGetCmd   `cmd:"" help:"Print the settings of plans and the plan: layers, functions, hosts."`
	Set   PlanSetCmd   `cmd:"" help:"Change settings of plans; the planner follows at once."`
	Watch PlanWatchCmd `cmd:"" help:"Print settings and layers, and each change with its reason as it comes."`
	Solve PlanSolveCmd `cmd:"" help:"Plan one request for a serverless platform, without a server: which experts leave, with how much memory, for how much."`
}

// PlanFrom says which model's plans.
type PlanFrom struct {
	Model string `default:"demo" help:"Model whose plans." placeholder:"NAME"`
	JSON  bool   `name:"json" help:"Print JSON, one object a line."`

	cli.ConnectFlags `embed:""`
}

// PlanGetCmd prints the plan.
type PlanGetCmd struct {
	PlanFrom `embed:""`
}

// PlanSetCmd changes settings. Its flags are no variables: SWITCHYARD_REPLICAS
// is of the streams.
type PlanSetCmd struct {
	PlanFrom `embed:""`

	Policy    string `env:"-" help:"Who decides what is where: ${host_policies}." placeholder:"NAME"`
	Grouping  string `env:"-" help:"Experts of one function: planner (all of a layer on one host) or expert (one each)." placeholder:"KIND"`
	Way       *int   `env:"-" help:"How many experts a united expert of plans stands in for, where hosts have united experts of several ways; without it the most." placeholder:"N"`
	Transfer  string `env:"-" help:"How rows reach experts and come back: direct (messages), indirect (an object each way) or pipelined (an object for each minibatch, fetched while others are computed); without it as the policy says, which is direct." placeholder:"MODE"`
	Minibatch *int   `env:"-" help:"With --transfer pipelined: rows of a minibatch (default 64)." placeholder:"N"`
	Replicas  *int   `env:"-" help:"Hosts that run each function, as far as there are so many with room." placeholder:"N"`
}

// PlanWatchCmd prints changes.
type PlanWatchCmd struct {
	PlanFrom `embed:""`
}

func (f PlanFrom) names(e *cli.Env) schemas.Streams {
	return schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, f.Model)}
}

// open connects to the bucket of a model's plans.
func (f PlanFrom) open(ctx context.Context, e *cli.Env) (*bus.Conn, jetstream.KeyValue, error) {
	conn, err := e.Connect(ctx, "plan", f.ConnectFlags)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.Waits.Dialing(f.ConnectFlags))
	defer cancel()
	kv, err := plans.Open(ctx, conn.JetStream(), f.names(e))
	if err != nil {
		defer conn.Close()
		return nil, nil, cli.Explained(conn, err)
	}
	return conn, kv, nil
}

// Run prints the plan.
func (c *PlanGetCmd) Run(ctx context.Context, e *cli.Env) error {
	conn, kv, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	state, err := plans.ReadAll(ctx, conn.JetStream(), kv, c.names(e))
	if err != nil {
		return cli.Explained(conn, err)
	}
	return state.Print(e.Out, c.JSON)
}

// Run changes settings, prints all of them, and says what came of it. What would have no
// effect is refused.
func (c *PlanSetCmd) Run(ctx context.Context, e *cli.Env) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	return c.apply(ctx, e, change)
}

// apply changes settings.
func (c *PlanSetCmd) apply(ctx context.Context, e *cli.Env, change plan.Settings) error {
	conn, kv, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	here, err := plans.Look(ctx, conn.JetStream(), c.names(e))
	if err != nil {
		return cli.Explained(conn, err)
	}
	if err := here.Refuses(change, c.Model); err != nil {
		return err
	}
	now, revision, err := planstore.ChangeSettingsAt(ctx, kv, change)
	if err != nil {
		return cli.Explained(conn, err)
	}
	if err := plans.FromPlan(now).Print(e.Out, c.JSON); err != nil {
		return err
	}
	return c.followed(ctx, e, here, func(ctx context.Context) (*plans.State, plan.Settings, error) {
		return plans.Await(ctx, kv, c.Model, now, change, revision)
	})
}

// followWithin bounds the wait for a plan by new settings: a planner takes about a second.
const followWithin = 5 * time.Second

// followed says what the planner made of settings that were written, which await waits for.
func (c *PlanSetCmd) followed(ctx context.Context, e *cli.Env, here plans.Here, await func(context.Context) (*plans.State, plan.Settings, error)) error {
	if here.Hosts == 0 || here.ByLoad() {
		e.Say(here.Text()+"\n", here.Text())
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, followWithin)
	defer cancel()
	state, s, err := await(ctx)
	switch {
	case errors.Is(err, plans.ErrSuperseded):
		return fmt.Errorf("set, but %w", err)
	case state == nil:
		return err
	}
	short := state.ShortOf(s.Replicas)
	switch {
	case short.Functions > 0:
		return fmt.Errorf("set, but %d of %d functions have fewer than %d replicas, one has %d: the memory of the hosts holds no more; give them more --expert-memory, or start more of them",
			short.Functions, short.Of, s.Replicas, short.Fewest)
	case err != nil:
		return fmt.Errorf("set, but %w, after %v: `switchyard plan watch` shows when one does, the hosts' logs why none does", err, followWithin)
	}
	text := fmt.Sprintf("planned: %d functions in %d layers, each on %d hosts or more", short.Of, len(state.Layers), s.Replicas)
	if s.Replicas == 1 {
		text = fmt.Sprintf("planned: %d functions in %d layers", short.Of, len(state.Layers))
	}
	e.Say(text+"\n", text)
	return nil
}

// change returns what the flags name, checked before anything is dialled.
func (c *PlanSetCmd) change() (plan.Settings, error) {
	change := plan.Settings{Policy: c.Policy, Grouping: plan.Grouping(c.Grouping)}
	if c.Replicas != nil {
		if change.Replicas = *c.Replicas; change.Replicas < 1 {
			return change, cli.Usage(fmt.Errorf("--replicas is %d; it must be 1 to %d", change.Replicas, plan.MaxReplicas))
		}
	}
	if c.Way != nil {
		if change.Way = *c.Way; change.Way < 2 {
			return change, cli.Usage(fmt.Errorf("--way is %d; it must be 2 to %d", change.Way, plan.MaxWay))
		}
	}
	if err := c.transfer(&change); err != nil {
		return change, cli.Usage(err)
	}
	if change == (plan.Settings{}) {
		return change, cli.Usage(errors.New("nothing to set; give --policy, --grouping, --replicas, --way or --transfer"))
	}
	if err := plan.DefaultSettings().With(change).Check(); err != nil {
		return change, cli.Usage(fmt.Errorf("these settings cannot be set: %w", err))
	}
	return change, nil
}

// defaultMinibatch is the rows of a minibatch unless they are given.
const defaultMinibatch = 64

// transfer adds what the flags say of how rows travel.
func (c *PlanSetCmd) transfer(change *plan.Settings) error {
	mode, known := plan.Transfers[c.Transfer]
	switch {
	case c.Transfer != "" && !known:
		return fmt.Errorf("--transfer is %.64q; it must be direct, indirect or pipelined", c.Transfer)
	case c.Minibatch != nil && mode != plan.Pipelined:
		return errors.New("--minibatch is of --transfer pipelined alone; give both, or neither")
	case c.Minibatch != nil && (*c.Minibatch < 1 || *c.Minibatch > plan.MaxMinibatch):
		return fmt.Errorf("--minibatch is %d; it must be 1 to %d rows", *c.Minibatch, plan.MaxMinibatch)
	}
	if change.Transfer = mode; mode == plan.Pipelined {
		change.Minibatch = defaultMinibatch
		if c.Minibatch != nil {
			change.Minibatch = *c.Minibatch
		}
	}
	return nil
}

// Run prints changes until a signal, which is how it is meant to end.
func (c *PlanWatchCmd) Run(ctx context.Context, e *cli.Env) error {
	conn, kv, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	w := plans.Watch{Conn: conn, KV: kv, Model: c.Model, Names: c.names(e), Patience: c.ConnectTimeout, JSON: c.JSON}
	return cli.Explained(conn, w.Run(ctx, e.Out))
}
