package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/switchyard/switchyard/loadtest/maps"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// MapsCmd builds expert maps; switchyard looks after them.
type MapsCmd struct {
	Build MapsBuildCmd `cmd:"" help:"Build a store of expert maps from a recording, and say what it foretells."`
}

// MapsBuildCmd builds a store without serving.
type MapsBuildCmd struct {
	cli.KernelsFlag `embed:""`

	Model       string  `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Out         string  `help:"Snapshot to write; without it the store is only measured." placeholder:"FILE"`
	Train       float64 `default:"1" help:"Share of each domain's sequences of which the store is built; it is measured on the others." placeholder:"RATIO"`
	Least       float64 `default:"0" help:"Measure with a threshold of at least so much; the paper's, 1 less the score, is often 0." placeholder:"RATIO"`
	Online      bool    `help:"Take in maps of what is measured, too, after each step, as while serving."`
	PrefillMaps string  `default:"mean" enum:"last,mean,rows" help:"Which maps a prompt has: of its last row, the mean of all, or one of each row." placeholder:"ROWS"`
	Embedding   string  `default:"rows" enum:"last,mean,rows,pair" help:"What stands beside a map: the row's own embedding (rows or last), a quarter of the one before it added (pair), or the mean of the context's." placeholder:"ROWS"`
	Tenant      string  `env:"-" default:"${tenant}" help:"Whose maps they are." placeholder:"NAME"`
	Threads     int     `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`
	JSON        bool    `name:"json" help:"Print a JSON object."`
	Recording   string  `arg:"" name:"recording" help:"File of switchyard record, with inputs of gates."`

	cli.MapStoreFlags `embed:""`
}

// Run builds, measures and writes.
func (c *MapsBuildCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r, err := recording.Open(c.Recording)
	if err != nil {
		return cli.Usage(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	threads, err := up.NewPool(c.Threads)
	if err != nil {
		return err
	}
	defer threads.Close()
	line := e.Progress()
	defer line.Clear()
	s := maps.Settings{
		Model: m, Pool: threads, Recording: r, Store: c.Settings(), Prefill: maps.Of(c.PrefillMaps), Embedding: maps.Of(c.Embedding),
		Train: c.Train, Least: c.Least, Online: c.Online, Tenant: c.Tenant, Progress: line.Set,
	}
	if err := s.Check(); err != nil {
		return cli.Usage(err)
	}
	if c.Out != "" {
		if err := cli.TakesFiles("--out", filepath.Dir(c.Out)); err != nil {
			return err
		}
	}
	store, report, err := maps.Run(ctx, s)
	if err == nil && c.Out != "" {
		err = mapfile.Write(c.Out, store)
	}
	if err != nil {
		return err
	}
	line.Clear()
	return cli.Show(e, c.JSON, report, report.String())
}
