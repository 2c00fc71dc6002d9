package main

import (
	"context"
	"errors"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// BareCmd runs a service that has no model as this process.
type BareCmd struct {
	Own            kong.Plugins `embed:""` // a pointer to the service's own flags
	TelemetryFlags `embed:"" group:"Metrics and traces:"`

	of     service.Descriptor
	config func(service.Process) (any, error)
}

func newBareCmd(of service.Descriptor) BareCmd {
	own := of.Flags()
	return BareCmd{of: of, Own: kong.Plugins{own.Struct}, config: own.Config}
}

// Run serves until a signal.
func (c *BareCmd) Run(ctx context.Context, e *env) (err error) {
	own, err := c.config(processOf(e.Globals, ModelFlags{}))
	if err != nil {
		return wrongly(err)
	}
	var s cluster.Services
	s.Set(c.of.Name, own)
	tc := c.TelemetryFlags.config("switchyard-"+c.of.Name, ModelFlags{})
	tc.Model, tc.NumericClass = "", "" // it serves whatever models there are
	if err := tc.Validate(); err != nil {
		return usage(err)
	}
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return usage(err)
	}
	n := &cluster.Node{Bus: e.busConfig(), Drain: e.waits.drain, Shared: deployment.Settings{Prefix: e.Prefix, Version: version, Telemetry: t, Logger: e.log}}
	defer func() { err = errors.Join(err, n.Close()) }()
	p := cluster.NewPipeline(n, s, map[string]int{c.of.Name: 1})
	go sayReady(ctx, e, p)
	if c.of.Light {
		defer lifecycle.FollowProcessors(ctx)()
	}
	return stopped(ctx, p.Serve(ctx))
}
