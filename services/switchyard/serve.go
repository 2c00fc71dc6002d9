package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// The services as commands: one service a process, many replicas of each.

// ServiceCmd runs one service as this process.
type ServiceCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	Own            kong.Plugins `embed:""`                // a pointer to the service's own flags
	Edge           kong.Plugins `embed:""`                // to EdgeFlags, where it fronts producers
	Loads          kong.Plugins `embed:"" group:"Kafka:"` // to KafkaFlags, where it has to do with loads
	TelemetryFlags `embed:"" group:"Metrics and traces:"`

	of     service.Descriptor
	config func(service.Process) (any, error) // nil: it has no flags of its own
	edge   *EdgeFlags
	loads  *KafkaFlags
}

func newServiceCmd(of service.Descriptor) ServiceCmd {
	c := ServiceCmd{of: of, edge: &EdgeFlags{}, loads: &KafkaFlags{}}
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
func (c *ServiceCmd) Run(ctx context.Context, e *env) error {
	s, err := c.services(e)
	if err != nil {
		return err
	}
	return serve(ctx, e, c.of, c.ModelFlags, c.TelemetryFlags, s)
}

// services are the settings of this one.
func (c *ServiceCmd) services(e *env) (s cluster.Services, err error) {
	var wrong []error
	if c.config != nil {
		own, err := c.config(processOf(e.Globals, c.ModelFlags))
		wrong = append(wrong, wrongly(err))
		s.Set(c.of.Name, own)
	}
	s.Kafka, err = c.loads.config(e.Insecure)
	if err == nil && s.Kafka == nil {
		err = c.unheard(e)
	}
	wrong = append(wrong, err)
	if c.of.Fronts {
		s.Edge, err = c.edge.config(e.Globals)
		wrong = append(wrong, err)
	}
	return s, errors.Join(append(wrong, c.check())...)
}

// unheard says what follows where no Kafka is named.
func (c *ServiceCmd) unheard(e *env) error {
	if c.of.Loads.Unheard != "" {
		e.log.Warn(c.of.Loads.Unheard)
	}
	if c.of.Loads.Missing != "" {
		return usage(errors.New(c.of.Loads.Missing))
	}
	return nil
}

// processOf is what services' own flags are read with.
func processOf(g Globals, m ModelFlags) service.Process {
	return service.Process{Prefix: g.Prefix, Version: semver(version), MaxModelLen: m.MaxModelLen, Insecure: g.Insecure, GPU: openGPU}
}

// EdgeFlags say how a tokenizer reaches producers where they are in an account of their own.
type EdgeFlags struct {
	EdgeNATS  string `name:"edge-nats" help:"NATS URL or context of user tokenizer-edge, which hears and answers producers, where they have an account of their own; without it --nats." placeholder:"URL"`
	EdgeCreds string `name:"edge-creds" help:"That user's credentials file, tokenizer-edge.creds of auth init; without it --creds." placeholder:"FILE"`
}

// config is nil where one user does for both.
func (f EdgeFlags) config(g Globals) (*bus.Config, error) {
	if f == (EdgeFlags{}) {
		if user := g.busConfig().User(); user != "" && rights.AccountOf(user) != rights.ProducersAccount {
			return nil, usage(fmt.Errorf("the credentials are of user %s, who does not hear producers: they have an account of their own; "+
				"give those of user %s too, with --edge-creds FILE or --edge-nats CONTEXT (switchyard auth update makes them where they are missing)", user, rights.Edge))
		}
		return nil, nil //nolint:nilnil // one user does for both
	}
	c := g.busConfig()
	if f.EdgeNATS != "" {
		c.URL, c.Creds = f.EdgeNATS, ""
	}
	c.Creds = cmp.Or(f.EdgeCreds, c.Creds)
	return &c, nil
}

// serve runs one service as this process.
func serve(ctx context.Context, e *env, of service.Descriptor, mf ModelFlags, tf TelemetryFlags, s cluster.Services) (err error) {
	tc := tf.config("switchyard-"+of.Name, mf)
	tellDevice(e, s, mf, &tc)
	n, err := newNode(ctx, e, mf, tc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	n.Bus, n.Shared.TellStages = e.busConfig(), true
	n.Shared.Class = classOf(s, mf)
	count := map[string]int{of.Name: 1}
	if err := checkServices(s, n.Shared.Model, count); err != nil {
		return usage(err)
	}
	p := cluster.NewPipeline(n, s, count)
	go sayReady(ctx, e, p)
	if of.Light {
		defer lifecycle.FollowProcessors(ctx)()
	}
	return stopped(ctx, p.Serve(ctx))
}

// stopped turns the end that a signal asked for into success, also of the wait for a server.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, bus.ErrNoConnection)) {
		return nil
	}
	return err
}

// newNode opens the model and what this process tells about itself.
func newNode(ctx context.Context, e *env, mf ModelFlags, tc telemetry.Config) (*cluster.Node, error) {
	if err := tc.Validate(); err != nil {
		return nil, usage(err)
	}
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return nil, usage(err)
	}
	line := e.progress()
	line.Set("opening the model…")
	defer line.Clear()
	m, err := mf.open(ctx, e)
	if err != nil {
		return nil, errors.Join(err, t.Close()) //nolint:contextcheck // as Setup
	}
	return nodeOf(e, mf, m, pool.New(mf.threads()), t), nil
}

// nodeBeside is the share of a further model in a process that has one already, whose threads
// and pages it shares.
func nodeBeside(ctx context.Context, e *env, mf ModelFlags, tc telemetry.Config, first *cluster.Node) (*cluster.Node, error) {
	m, err := mf.open(ctx, e)
	if err != nil {
		return nil, err
	}
	n := nodeOf(e, mf, m, first.Shared.Pool, first.Shared.Telemetry.Beside(tc))
	n.KeepPool = true
	return n, nil
}

// nodeOf is this process's share of an open model.
func nodeOf(e *env, mf ModelFlags, m *model.Model, p *pool.Pool, t *telemetry.Telemetry) *cluster.Node {
	logBytes, _ := mf.logBytes() // checked with the other flags
	return &cluster.Node{Drain: e.waits.drain, Shared: deployment.Settings{
		Model: m, Pool: p, Prefix: e.Prefix, Name: mf.Name, Hops: mf.hops(), Wire: mf.wire(),
		Replicas: mf.Replicas, LogAge: mf.LogAge, LogBytes: logBytes, AllRows: mf.RowsToPredictor == allRows, Version: version, Telemetry: t, Logger: e.log,
	}}
}

// sayReady prints `ready` once a token can flow.
func sayReady(ctx context.Context, e *env, p *cluster.Pipeline) {
	if p.AwaitReady(ctx) == nil {
		e.say("ready\n", "ready")
	}
}
