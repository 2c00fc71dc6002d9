package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// RemoeFlags are of the suite remoe.
type RemoeFlags struct {
	Platform string        `default:"kubernetes" help:"Remoe: serverless platform of functions, by name (${platforms}) or file." placeholder:"NAME"`
	Past     int           `default:"1000" help:"Remoe: prompts of the past that foretell a request's experts." placeholder:"N"`
	Requests int           `default:"50" help:"Remoe: requests, one by one." placeholder:"N"`
	SLO      []float64     `name:"slo" default:"1.1,1.5,2,3" help:"Remoe: objectives of TTFT and TPOT, as multiples of what they are with all experts on the host." placeholder:"TIMES,..."`
	Prices   []float64     `default:"3,1,2,4,5,6" help:"Remoe: prices of GPU memory, as multiples of that of hosts; the first is that of parts that do not vary it." placeholder:"TIMES,..."`
	Thin     int           `default:"200" help:"Remoe: one in how many requests of --trace comes, to plans that follow them and plans that stay." placeholder:"N"`
	Cycle    time.Duration `default:"30m" help:"Remoe: time in which the mix of texts of --trace has shifted through all and back." placeholder:"TIME"`
}

// remoe compares ways to serve single requests on a serverless platform.
func (c *ArenaCmd) remoe(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" {
		return c.remoeLive(ctx, e)
	}
	line := e.Progress()
	defer line.Clear()
	s, err := c.remoeSettings()
	if err == nil {
		err = s.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	r, err := arena.RunRemoe(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	if err := c.showRemoe(e, r); err != nil {
		return err
	}
	return r.Write(c.Out)
}

// showRemoe prints a line for each policy and variation as JSON, and for people what predictions and
// bounds are worth and how costs compare.
func (c *ArenaCmd) showRemoe(e *cli.Env, r *arena.RemoeReport) error {
	for _, l := range r.Lines {
		if !c.JSON && !l.Measured() {
			continue
		}
		if err := cli.Show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	if err := c.showUnlessJSON(e, stringsOf(r.Gaps)); err != nil {
		return err
	}
	for _, l := range r.Streamed {
		if err := cli.Show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	return c.showUnlessJSON(e, append(stringsOf(r.StreamChanges), stringsOf(r.Changes)...))
}

// showUnlessJSON prints lines for people; of what they say, JSON's reader has the report.
func (c *ArenaCmd) showUnlessJSON(e *cli.Env, said []string) error {
	if c.JSON {
		return nil
	}
	for _, line := range said {
		if err := cli.Show(e, false, nil, line); err != nil {
			return err
		}
	}
	return nil
}

func stringsOf[T fmt.Stringer](all []T) []string {
	said := make([]string, len(all))
	for i, one := range all {
		said[i] = one.String()
	}
	return said
}

func (c *ArenaCmd) remoeSettings() (s arena.Remoe, err error) {
	others := []struct{ flags, empty any }{
		{&c.ElasticFlags, &ElasticFlags{}}, {&c.PointFlags, &PointFlags{}}, {&c.BatchFlags, &BatchFlags{}}, {&c.LiveFlags, &LiveFlags{}}, {&c.OffloadFlags, &OffloadFlags{}},
		{&c.BrownoutFlags, &BrownoutFlags{}}, {&c.BOODSFlags, &BOODSFlags{}},
	}
	for _, other := range others {
		if name, err := cli.Changed(other.flags, other.empty); err != nil || name != "" {
			return s, errors.Join(err, fmt.Errorf("--%s is of another suite; leave it out", name))
		}
	}
	s = arena.Remoe{
		Shapes: c.Shapes, Policies: c.Policies, Platform: c.Platform, Past: c.Past, Served: c.Requests, Seed: c.Seed, Seeds: c.Seeds,
		SLOs: c.SLO, Prices: c.Prices, Variants: c.Variants, Threads: runtime.GOMAXPROCS(0),
	}
	named := strings.Join(c.Shapes, ",") != moelessShapes
	if c.Trace == "" {
		if !named {
			s.Shapes = rented.Names()
		}
		return s, nil
	}
	if !named {
		s.Shapes = []string{"deepseek-v2-lite"}
	}
	s.Stream = arena.RemoeStream{Source: filepath.Base(c.Trace), Thin: c.Thin, KeepAlive: c.KeepAlive, Cycle: c.Cycle}
	s.Stream.Trace, err = readFile(c.Trace, trace.Read)
	return s, err
}
