package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// The services as commands: one service a process, many replicas of each.

// ServiceCmd runs one service as this process.
type ServiceCmd struct {
	up.ModelFlags     `embed:"" group:"Model and pipeline:"`
	Own               kong.Plugins `embed:""`                // a pointer to the service's own flags
	Edge              kong.Plugins `embed:""`                // to EdgeFlags, where it fronts producers
	Loads             kong.Plugins `embed:"" group:"Kafka:"` // to KafkaFlags, where it has to do with loads
	up.TelemetryFlags `embed:"" group:"Metrics and traces:"`

	of     service.Descriptor
	config func(service.Process) (any, error) // nil: it has no flags of its own
	edge   *EdgeFlags
	loads  *up.KafkaFlags
}

func newServiceCmd(of service.Descriptor) ServiceCmd {
	c := ServiceCmd{of: of, edge: &EdgeFlags{}, loads: &up.KafkaFlags{}}
	if of.Flags != nil {
		own := of.Flags()
		c.Own, c.config = kong.Plugins{own.Struct}, own.Config
	}
	if of.Fronts {
		c.Edge = kong.Plugins{c.edge}
	}
	if of.Loads.Flags {
		c.Loads = kong.Plugins{c.loads}
	}
	return c
}

// serviceCommands is a struct with a command for each service, as the parser takes them.
func serviceCommands() kong.Plugins {
	all := services.All()
	fields := make([]reflect.StructField, len(all))
	for i, of := range all {
		kind := reflect.TypeFor[ServiceCmd]()
		if of.Bare != nil {
			kind = reflect.TypeFor[BareCmd]()
		}
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("Service%d", i), Type: kind,
			Tag: reflect.StructTag(fmt.Sprintf(`cmd:"" name:%q group:"Serve:" help:%q`, of.Name, of.Help)),
		}
	}
	commands := reflect.New(reflect.StructOf(fields))
	for i, of := range all {
		if of.Bare != nil {
			commands.Elem().Field(i).Set(reflect.ValueOf(newBareCmd(of)))
			continue
		}
		commands.Elem().Field(i).Set(reflect.ValueOf(newServiceCmd(of)))
	}
	return kong.Plugins{commands.Interface()}
}

// Run serves until a signal.
func (c *ServiceCmd) Run(ctx context.Context, e *cli.Env) error {
	s, err := c.services(e)
	if err != nil {
		return err
	}
	return c.serve(ctx, e, s)
}

// services are the settings of this one.
func (c *ServiceCmd) services(e *cli.Env) (s cluster.Services, err error) {
	var wrong []error
	if c.config != nil {
		own, err := c.config(up.ProcessOf(e.Globals, c.ModelFlags))
		wrong = append(wrong, cli.Wrongly(err))
		s.Set(c.of.Name, own)
	}
	s.Kafka, err = c.loads.Config(e.Insecure)
	if err == nil && s.Kafka == nil {
		err = c.unheard(e)
	}
	wrong = append(wrong, err)
	if c.of.Fronts {
		s.Edge, err = c.edge.config(e.Globals)
		wrong = append(wrong, err)
	}
	return s, errors.Join(append(wrong, c.Check())...)
}

// unheard says what follows where no Kafka is named.
func (c *ServiceCmd) unheard(e *cli.Env) error {
	if c.of.Loads.Unheard != "" {
		e.Log.Warn(c.of.Loads.Unheard)
	}
	if c.of.Loads.Missing != "" {
		return cli.Usage(errors.New(c.of.Loads.Missing))
	}
	return nil
}

// EdgeFlags say how a tokenizer reaches producers where they are in an account of their own.
type EdgeFlags struct {
	EdgeNATS  string `name:"edge-nats" help:"NATS URL or context of user tokenizer-edge, which hears and answers producers, where they have an account of their own; without it --nats." placeholder:"URL"`
	EdgeCreds string `name:"edge-creds" help:"That user's credentials file, tokenizer-edge.creds of auth init; without it --creds." placeholder:"FILE"`
}

// config is nil where one user does for both.
func (f EdgeFlags) config(g cli.Globals) (*bus.Config, error) {
	if f == (EdgeFlags{}) {
		if user := g.BusConfig().User(); user != "" && rights.AccountOf(user) != rights.ProducersAccount {
			return nil, cli.Usage(fmt.Errorf("the credentials are of user %s, who does not hear producers: they have an account of their own; "+
				"give those of user %s too, with --edge-creds FILE or --edge-nats CONTEXT (switchyard auth update makes them where they are missing)", user, rights.Edge))
		}
		return nil, nil //nolint:nilnil // one user does for both
	}
	c := g.BusConfig()
	if f.EdgeNATS != "" {
		c.URL, c.Creds = f.EdgeNATS, ""
	}
	c.Creds = cmp.Or(f.EdgeCreds, c.Creds)
	return &c, nil
}

// reload has a running pipeline take what a command says that was read again.
func (c *ServiceCmd) reload(e *cli.Env, p *cluster.Pipeline) func(command any) error {
	return func(command any) error {
		now, is := command.(*ServiceCmd)
		if !is || !c.of.Reloads {
			return nil
		}
		own, err := now.config(up.ProcessOf(e.Globals, now.ModelFlags))
		if err == nil {
			p.Reload(own)
		}
		return err
	}
}

// serve runs the service as this process.
func (c *ServiceCmd) serve(ctx context.Context, e *cli.Env, s cluster.Services) (err error) {
	of, mf, tf := c.of, c.ModelFlags, c.TelemetryFlags
	tc := tf.Config("switchyard-"+of.Name, mf)
	up.TellDevice(e, s, mf, &tc)
	n, err := up.NewNode(ctx, e, mf, tc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	n.Bus, n.Shared.TellStages = e.BusConfig(), true
	n.Shared.Class = up.ClassOf(s, mf)
	count := map[string]int{of.Name: 1}
	part := up.Part{Services: &s, Model: n.Shared.Model, Count: count}
	if err := up.ShareMemory(e, part); err != nil {
		return err
	}
	up.TellModel(e, part, n, mf, bus.Redact(n.Bus.URL))
	if err := up.CheckServices(s, n.Shared.Model, count); err != nil {
		return cli.Usage(err)
	}
	p := cluster.NewPipeline(n, s, count)
	defer e.Follow(ctx, c.reload(e, p))()
	go up.SayReady(ctx, e, p)
	return up.Stopped(ctx, p.Serve(ctx))
}
