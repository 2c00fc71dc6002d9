package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/chosen"
	"github.com/switchyard/switchyard/loadtest/sim/batchtexts"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// BOODSCmd compares deployments of experts as functions of a serverless platform, planned before batches come.
type BOODSCmd struct {
	SuiteFlags     `embed:""`
	SimulatedFlags `embed:""`

	BackEnd     string   `default:"sim" enum:"sim" hidden:"" help:"What runs it: always a simulated clock." placeholder:"KIND"`
	Shapes      []string `default:"bert_moe-4,bert_moe-8,bert_moe-16,bert_moe-4:2,gpt2_moe-4,bert2bert_moe-4,demo" help:"Shapes of models." placeholder:"NAME"`
	Policies    []string `help:"What is compared; all without it." placeholder:"NAME"`
	Recording   string   `help:"Recording of the demo model (switchyard record), whose sequences its batches have." placeholder:"FILE"`
	Rental      string   `default:"lambda" help:"Serverless platform of functions, by name (${platforms}) or file." placeholder:"NAME"`
	BatchTokens int      `default:"10240" help:"Tokens of a batch." placeholder:"N"`
	Batches     int      `default:"20" help:"Batches that plans are billed for." placeholder:"N"`
	Sequences   int      `default:"3400" help:"Sequences that are generated for shapes without a recording, beside those of test batches." placeholder:"N"`
	TuneRounds  int      `default:"25" help:"Rounds of a search, at most." placeholder:"N"`
	Pairs       int      `default:"1000" help:"Keys of the table whose values a round changes." placeholder:"N"`
	Latency     float64  `default:"1.2309" help:"Latency that plans may have, as a multiple of LambdaML's: at the default throughput is 18.76 % less." placeholder:"TIMES"`
}

// Run compares, and writes the report.
func (c *BOODSCmd) Run(ctx context.Context, e *cli.Env) error {
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	return simulate(e, &c.SuiteFlags, err, func(progress func(string, ...any)) (*arena.BOODSReport, error) {
		s.Progress = progress
		return arena.RunBOODS(ctx, s)
	}, func(r *arena.BOODSReport) error {
		if c.JSON { // the report has the rest
			return showAll(e, true, r.Lines)
		}
		return errors.Join(showAll(e, false, r.Lines), showAll(e, false, r.Changes), showAll(e, false, r.Searches))
	})
}

func (c *BOODSCmd) settings() (s arena.BOODS, err error) {
	if err := c.check(); err != nil {
		return s, err
	}
	s = arena.BOODS{
		Shapes: c.Shapes, Policies: c.Policies, Platform: c.Rental, Sequences: c.Sequences, Tokens: c.BatchTokens, Learn: 1, Test: c.Batches, Rounds: c.TuneRounds, Pairs: c.Pairs,
		Limit: c.Latency, Seed: c.Seed, Seeds: c.Seeds, Threads: runtime.GOMAXPROCS(0),
	}
	if c.Recording == "" {
		return s, nil
	}
	m, err := model.Demo()
	if err != nil {
		return s, err
	}
	s.Recorded, err = chosen.Read(c.Recording, m.Spec.Vocab)
	return s, errors.Join(err, m.Close())
}

// check refuses numbers out of range by their flags' names.
func (c *BOODSCmd) check() error {
	var latency error
	if !(c.Latency > 0 && c.Latency <= arena.MostLatency) {
		latency = fmt.Errorf("--latency is %v; it must be above 0, and %d at most", c.Latency, arena.MostLatency)
	}
	return errors.Join(
		up.CheckRange("batch-tokens", c.BatchTokens, arena.LeastBatchTokens, arena.MostBatchTokens), up.CheckRange("batches", c.Batches, 1, arena.MostBatches),
		up.CheckRange("sequences", c.Sequences, 1, batchtexts.MostSequences), up.CheckRange("tune-rounds", c.TuneRounds, 1, arena.MostTuneRounds),
		up.CheckRange("pairs", c.Pairs, 1, bo.MostPairs), up.CheckRange("seeds", c.Seeds, 1, arena.MostSeeds), latency)
}
