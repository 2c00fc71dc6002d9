package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// BrownoutFlags are of the suite brownout.
type BrownoutFlags struct {
	Minutes float64 `default:"10" help:"Brownout: for how long requests come at each rate." placeholder:"MINUTES"`
	United  string  `help:"Brownout, live: folder of united experts of ways 2, 4 and 8." placeholder:"DIR"`
	Engine  string  `default:"separate" enum:"separate,fused" help:"Brownout, live: whether each expert is a function of its own (separate), or a layer's are one (fused)." placeholder:"NAME"`
	Streams int     `default:"32" help:"Brownout, live: requests that decode together." placeholder:"N"`
	Exempt  []int   `help:"Brownout, live: layers that brownouts spare." placeholder:"LAYER,..."`
	Ways    []int   `default:"2,4,8" help:"Brownout, live: of which ways settings are run." placeholder:"N,..."`
}

// brownout compares what can be done when requests come faster than they can be served.
func (c *ArenaCmd) brownout(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" {
		return c.brownoutLive(ctx, e)
	}
	line := e.Progress()
	defer line.Clear()
	s, err := c.brownoutSettings()
	if err == nil {
		err = s.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	r, err := arena.RunBrownout(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	for _, l := range r.Lines {
		if err := cli.Show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	return r.Write(c.Out)
}

func (c *ArenaCmd) brownoutSettings() (s arena.Brownout, err error) {
	switch {
	case c.Trace == "":
		return s, errors.New("--trace is missing; name a CSV file of requests, whose tokens they have")
	case len(c.Policies) > 0:
		return s, errors.New("--suite brownout compares all of its policies; leave --policies out")
	}
	others := []struct{ flags, empty any }{{&c.ElasticFlags, &ElasticFlags{}}, {&c.PointFlags, &PointFlags{}}, {&c.BatchFlags, &BatchFlags{}}, {&c.LiveFlags, &LiveFlags{}}, {&c.OffloadFlags, &OffloadFlags{}}, {&c.RemoeFlags, &RemoeFlags{}}, {&c.BOODSFlags, &BOODSFlags{}}}
	for _, other := range others {
		if name, err := cli.Changed(other.flags, other.empty); err != nil || name != "" {
			return s, errors.Join(err, fmt.Errorf("--%s is of another suite; leave it out", name))
		}
	}
	s = arena.Brownout{Source: filepath.Base(c.Trace), Seed: c.Seed, Seeds: c.Seeds, Minutes: c.Minutes, Threads: runtime.GOMAXPROCS(0)}
	s.Trace, err = readFile(c.Trace, trace.Read)
	return s, err
}
