package main

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// RemoeCmd compares ways to serve single requests on a serverless platform.
type RemoeCmd struct {
	SuiteFlags     `embed:""`
	BackEndFlag    `embed:""`
	SimulatedFlags `embed:""`

	Trace     string        `help:"Requests that come as they do there, to plans that follow them and plans that stay: a CSV file as Azure publishes it, or JSON lines as Mooncake does." placeholder:"FILE"`
	Thin      int           `default:"200" help:"One in how many requests of --trace comes." placeholder:"N"`
	Cycle     time.Duration `default:"30m" help:"Time in which the mix of texts of --trace has shifted through all and back." placeholder:"TIME"`
	KeepAlive time.Duration `default:"60s" help:"How long a function of --trace without requests stays in memory." placeholder:"TIME"`
	Shapes    []string      `help:"Shapes of models: ${rented_shapes}; without it all of them, with --trace deepseek-v2-lite." placeholder:"NAME"`
	Policies  []string      `help:"What is compared; all without it." placeholder:"NAME"`
	Platform  string        `default:"kubernetes" help:"Serverless platform of functions, by name (${platforms}) or file." placeholder:"NAME"`
	Past      int           `default:"1000" help:"Prompts of the past that foretell a request's experts." placeholder:"N"`
	Requests  int           `default:"50" help:"Requests, one by one." placeholder:"N"`
	SLO       []float64     `name:"slo" default:"1.1,1.5,2,3" help:"Objectives of TTFT and TPOT, as multiples of what they are with all experts on the host." placeholder:"TIMES"`
	Prices    []float64     `default:"3,1,2,4,5,6" help:"Prices of GPU memory, as multiples of that of hosts; the first is that of parts that do not vary it." placeholder:"TIMES"`
}

// Run compares, and writes the report.
func (c *RemoeCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" {
		return c.live(ctx, e)
	}
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	return simulate(e, &c.SuiteFlags, err, func(progress func(string, ...any)) (*arena.RemoeReport, error) {
		s.Progress = progress
		return arena.RunRemoe(ctx, s)
	}, func(r *arena.RemoeReport) error { return c.show(e, r) })
}

// show prints a line for each policy and variation as JSON, and for people what predictions and
// bounds are worth and how costs compare.
func (c *RemoeCmd) show(e *cli.Env, r *arena.RemoeReport) error {
	if c.JSON {
		return errors.Join(showAll(e, true, r.Lines), showAll(e, true, r.Streamed))
	}
	measured := slices.DeleteFunc(slices.Clone(r.Lines), func(l arena.RemoeLine) bool { return !l.Measured() })
	return errors.Join(
		showAll(e, false, measured), showAll(e, false, r.Gaps), showAll(e, false, r.Streamed), showAll(e, false, r.StreamChanges), showAll(e, false, r.Changes),
	)
}

func (c *RemoeCmd) settings() (s arena.Remoe, err error) {
	s = arena.Remoe{
		Shapes: c.Shapes, Policies: c.Policies, Platform: c.Platform, Past: c.Past, Served: c.Requests, Seed: c.Seed, Seeds: c.Seeds,
		SLOs: c.SLO, Prices: c.Prices, Variants: c.Variants, Threads: runtime.GOMAXPROCS(0),
	}
	if c.Trace == "" {
		if len(c.Shapes) == 0 {
			s.Shapes = rented.Names()
		}
		return s, nil
	}
	if len(c.Shapes) == 0 {
		s.Shapes = []string{"deepseek-v2-lite"}
	}
	s.Stream = arena.RemoeStream{Source: filepath.Base(c.Trace), Thin: c.Thin, KeepAlive: c.KeepAlive, Cycle: c.Cycle}
	s.Stream.Trace, err = readFile(c.Trace, trace.Read)
	return s, err
}
