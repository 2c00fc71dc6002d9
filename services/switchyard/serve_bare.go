package main

import (
	"context"
	"errors"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// BareCmd runs a service that has no model as this process.
type BareCmd struct {
	Own               kong.Plugins `embed:""` // a pointer to the service's own flags
	up.TelemetryFlags `embed:"" group:"Metrics and traces:"`

	of     service.Descriptor
	config func(service.Process) (any, error)
}

func newBareCmd(of service.Descriptor) BareCmd {
	own := of.Flags()
	return BareCmd{of: of, Own: kong.Plugins{own.Struct}, config: own.Config}
}

// Run serves until a signal.
func (c *BareCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	own, err := c.config(up.ProcessOf(e.Globals, up.ModelFlags{}))
	if err != nil {
		return cli.Wrongly(err)
	}
	var s cluster.Services
	s.Set(c.of.Name, own)
	tc := c.TelemetryFlags.Config("switchyard-"+c.of.Name, up.ModelFlags{})
	tc.Model, tc.NumericClass = "", "" // it serves whatever models there are
	if err := tc.Validate(); err != nil {
		return cli.Usage(err)
	}
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return cli.Usage(err)
	}
	n := &cluster.Node{Bus: e.BusConfig(), Drain: e.Waits.Drain, Shared: deployment.Settings{Prefix: e.Prefix, Version: cli.Version, Telemetry: t, Logger: e.Log}}
	defer func() { err = errors.Join(err, n.Close()) }()
	p := cluster.NewPipeline(n, s, map[string]int{c.of.Name: 1})
	defer e.Follow(ctx, func(any) error { return nil })()
	go up.SayReady(ctx, e, p)
	return up.Stopped(ctx, p.Serve(ctx))
}
