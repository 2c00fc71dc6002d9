package main

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// BrownoutCmd compares what can be done when requests come faster than they can be served.
type BrownoutCmd struct {
	SuiteFlags     `embed:""`
	BackEndFlag    `embed:""`
	SimulatedFlags `embed:""`
	TextsFlag      `embed:""`

	Trace   string  `help:"Requests whose tokens are those of the simulated ones: a CSV file as Azure publishes it, or JSON lines as Mooncake does." placeholder:"FILE"`
	Minutes float64 `default:"10" help:"For how long requests come at each rate." placeholder:"MINUTES"`
	United  string  `help:"Live: folder of united experts of ways 2, 4 and 8." placeholder:"DIR"`
	Engine  string  `default:"separate" enum:"separate,fused" help:"Live: whether each expert is a function of its own (separate), or a layer's are one (fused)." placeholder:"NAME"`
	Streams int     `default:"32" help:"Live: requests that decode together." placeholder:"N"`
	Exempt  []int   `help:"Live: layers that brownouts spare." placeholder:"LAYER"`
	Ways    []int   `default:"2,4,8" help:"Live: of which ways settings are run." placeholder:"N"`
	Device  string  `default:"paced" enum:"cpu,paced" of:"live" help:"Live: what hosts compute on: cpu, or paced as --profile." placeholder:"KIND"`
	Profile string  `default:"a100x4-qwen1.5-moe" of:"live" help:"Live: the device that hosts are paced as, and that is simulated: a profile's name or a file." placeholder:"NAME"`
	Repeats int     `default:"5" of:"live" help:"Live: how often each setting runs, in turns with the others." placeholder:"N"`
}

// Run compares, and writes the report.
func (c *BrownoutCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" {
		return c.live(ctx, e)
	}
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	return simulate(e, &c.SuiteFlags, err, func(progress func(string, ...any)) (*arena.BrownoutReport, error) {
		s.Progress = progress
		return arena.RunBrownout(ctx, s)
	}, func(r *arena.BrownoutReport) error { return showAll(e, c.JSON, r.Lines) })
}

func (c *BrownoutCmd) settings() (s arena.Brownout, err error) {
	if c.Trace == "" {
		return s, errors.New("--trace is missing; name a CSV file of requests, whose tokens they have")
	}
	s = arena.Brownout{Source: filepath.Base(c.Trace), Seed: c.Seed, Seeds: c.Seeds, Minutes: c.Minutes, Threads: runtime.GOMAXPROCS(0)}
	s.Trace, err = readFile(c.Trace, trace.Read)
	return s, err
}
