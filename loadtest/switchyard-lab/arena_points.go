package main

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// PointFlags are those of operating points.
type PointFlags struct {
	Load       []float64     `help:"Serve requests on the simulated clock, at these parts of static's capacity (0: the trace as it is), with fitted and even routing, in place of the rest: points.csv, changes.csv and points.md." placeholder:"RATIO,..."`
	PointSlice time.Duration `default:"1m" help:"How much of the trace is served at each load: the time of this length with most tokens." placeholder:"TIME"`
	Idle       time.Duration `default:"2m" help:"Length of the pauses of a further run at the first load, one in every one and a half of it; 0s is no such run." placeholder:"TIME"`
	SLOTTFT    time.Duration `name:"slo-ttft" default:"2s" help:"Time to the first token that a good request keeps." placeholder:"TIME"`
	SLOTPOT    time.Duration `name:"slo-tpot" default:"200ms" help:"Mean time of a further token that a good request keeps." placeholder:"TIME"`
	Fail       time.Duration `default:"0s" help:"When the first host of each run goes for good, with all that it holds; 0s is never." placeholder:"TIME"`
}

func (c *ArenaCmd) points() arena.Points {
	return arena.Points{
		Of: c.Load, Slice: c.PointSlice, Idle: c.Idle, SLO: requests.SLO{TTFT: c.SLOTTFT, TPOT: c.SLOTPOT}, MaxRows: c.BatchRows, Fail: c.Fail,
	}
}

// serve compares at operating points.
func (c *ArenaCmd) serve(ctx context.Context, e *cli.Env) error {
	line := e.Progress()
	defer line.Clear()
	p := c.points()
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	if err == nil {
		err = p.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	cluster.BoundGarbage() // decisions leave garbage
	r, err := arena.Serve(ctx, s, p)
	if err != nil {
		return err
	}
	line.Clear()
	return errors.Join(c.tell(e, r), r.Write(c.Out))
}

// tell prints the lines as JSON objects, or else the verdicts.
func (c *ArenaCmd) tell(e *cli.Env, r *arena.Operating) error {
	for _, l := range r.Lines {
		if !c.JSON {
			break
		}
		if err := cli.Show(e, true, l, ""); err != nil {
			return err
		}
	}
	for _, v := range r.Verdicts {
		if c.JSON {
			break
		}
		if err := cli.Show(e, false, v, v.String()); err != nil {
			return err
		}
	}
	return nil
}
