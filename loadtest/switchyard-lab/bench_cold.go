package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/bench"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// ofCold are bench's flags that --cold-start has a use for.
var ofCold = []string{"cold-start", "model", "precision", "threads", "rounds", "json"}

// checkCold refuses flags that --cold-start has no use for, and models that are in no folder.
func (c *BenchCmd) checkCold() error {
	if !c.ColdStart {
		return nil
	}
	var idle []string
	for _, name := range c.given {
		if !slices.Contains(ofCold, name) {
			idle = append(idle, "--"+name)
		}
	}
	switch _, stored := (up.ModelFlags{Model: []string{c.Model}}).InStore(); {
	case len(idle) > 0:
		return cli.Usage(fmt.Errorf("--cold-start measures loads of experts alone, on the cpu; leave out %s", strings.Join(idle, ", ")))
	case c.Model == "", stored:
		return cli.Usage(errors.New("--cold-start reads files: name their folder with --model"))
	}
	return nil
}

// coldStart measures loads of an expert.
func (c *BenchCmd) coldStart(ctx context.Context, e *cli.Env, m *model.Model, line *terminal.Progress) error {
	if err := bench.CheckCold(m, c.Model); err != nil {
		return cli.Usage(err)
	}
	threads := pool.New(up.ModelFlags{Threads: c.Threads}.ComputeThreads())
	defer threads.Close()
	r, err := bench.MeasureCold(ctx, bench.ColdSettings{Model: m, Dir: c.Model, Pool: threads, Rounds: c.Rounds, Progress: line.Set})
	if err != nil {
		return err
	}
	line.Clear()
	return cli.Show(e, c.JSON, r, r.String())
}
