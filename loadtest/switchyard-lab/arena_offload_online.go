package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// onlineContext is the demo model's, which the longest request fills.
const onlineContext = 512

// online serves requests of traces on the pipeline, from empty stores, one after the other,
// and has the simulator say what it takes of the same ones (figure 10).
func (c *OffloadCmd) online(ctx context.Context, e *cli.Env) error {
	first, traces, err := c.prepareOnline()
	if err := c.beforeWork(e, err); err != nil {
		return err
	}
	factor, err := arena.OnlineFactor(traces, c.Seed, onlineContext)
	if err != nil {
		return cli.Usage(fmt.Errorf("--online: %w", err))
	}
	if !c.JSON { // else each line has it
		if err := cli.Show(e, false, nil, fmt.Sprintf("lengths and times between requests are the traces' times %.5f: the longest request has %d tokens\n", factor, onlineContext)); err != nil {
			return err
		}
	}
	var served []arena.OnlineServed
	var last *arena.OffloadPipeline
	for _, t := range traces {
		s := first.ofTrace(t.Name, factor)
		rs := t.Scaled(c.Seed, factor, onlineContext)
		if err := s.recordOnline(ctx, e, rs); err != nil {
			return fmt.Errorf("recording requests of %s: %w", t.Name, err)
		}
		if err := s.turns(ctx, e); err != nil {
			return err
		}
		if err := s.conclude(e, "live-"+t.Name+".json"); err != nil {
			return err
		}
		all, err := s.report.Online(s.pipeline, s.policies, rs)
		if err != nil {
			return err
		}
		served, last = append(served, all...), s.pipeline
	}
	if err := showAll(e, c.JSON, served); err != nil {
		return err
	}
	return arena.OnlineReport(last, first.report.Budgets, served).Write(c.Out)
}

// prepareOnline reads what is served.
func (c *OffloadCmd) prepareOnline() (*offloadLive, []arena.OnlineTrace, error) {
	s, err := c.prepare()
	if err != nil {
		return nil, nil, err
	}
	s.report.Budgets = []float64{arena.Middle(s.report.Budgets)}
	if err := s.checkRecording(); err != nil {
		return nil, nil, err
	}
	traces, err := c.onlineTraces()
	return s, traces, err
}

// checkRecording reads the recording of texts, and looks whether predictors can have so great a distance.
func (s *offloadLive) checkRecording() (err error) {
	m, err := model.Demo()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, err := arena.Record(s.Recording, m); err != nil {
		return fmt.Errorf("--recording: %w", err)
	}
	return s.serves.Check(m.Spec.MoELayers())
}

func (s *offloadLive) ofTrace(name string, factor float64) *offloadLive {
	of, report := *s, *s.report
	of.report, report.Trace, report.Factor = &report, name, factor
	return &of
}

// recordOnline has the demo model answer requests by direct calls: what the pipeline has to answer,
// and what the simulator is told of their rows.
func (s *offloadLive) recordOnline(ctx context.Context, e *cli.Env, rs []trace.Request) (err error) {
	dir, err := os.MkdirTemp("", "switchyard-online-")
	if err != nil {
		return fmt.Errorf("making a folder for a recording: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := model.Demo()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	texts, err := arena.Record(s.Recording, m)
	if err != nil {
		return err
	}
	threads, err := up.NewPool(0)
	if err != nil {
		return err
	}
	defer threads.Close()
	line := e.Progress()
	defer line.Clear()
	set := record.Settings{Model: m, Pool: threads, Wire: up.ModelFlags{Wire: "bf16"}.WireType(), Seed: s.Seed, Inputs: true, Progress: line.Set}
	if set.Asked, err = texts.Online(rs, s.Seed); err != nil {
		return err
	}
	path := filepath.Join(dir, "requests.st")
	if _, err := record.Run(ctx, set, path); err != nil {
		return err
	}
	r, err := arena.Record(path, m)
	if err != nil {
		return err
	}
	s.model = m.Hash
	s.pipeline, err = arena.NewOnlinePipeline(r, s.serves)
	if err == nil {
		s.report.Requests = len(s.pipeline.Served)
	}
	return err
}
