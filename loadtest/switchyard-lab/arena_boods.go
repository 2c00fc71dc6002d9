package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/chosen"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// BOODSFlags are of the suite bo-ods.
type BOODSFlags struct {
	Rental      string  `default:"lambda" help:"BO/ODS: serverless platform of functions, by name (${platforms}) or file." placeholder:"NAME"`
	BatchTokens int     `default:"10240" help:"BO/ODS: tokens of a batch." placeholder:"N"`
	Batches     int     `default:"20" help:"BO/ODS: batches that plans are billed for." placeholder:"N"`
	Sequences   int     `default:"3400" help:"BO/ODS: sequences that are generated for shapes without a recording, beside those of test batches." placeholder:"N"`
	TuneRounds  int     `default:"25" help:"BO/ODS: rounds of a search, at most." placeholder:"N"`
	Pairs       int     `default:"1000" help:"BO/ODS: keys of the table whose values a round changes." placeholder:"N"`
	Latency     float64 `default:"1.2309" help:"BO/ODS: latency that plans may have, as a multiple of LambdaML's: at the default throughput is 18.76 % less." placeholder:"TIMES"`
}

// boodsShapes are those that the suite has without being told.
const boodsShapes = "bert_moe-4,bert_moe-8,bert_moe-16,bert_moe-4:2,gpt2_moe-4,bert2bert_moe-4,demo"

// boods compares deployments of experts as functions of a serverless platform, planned before batches come.
func (c *ArenaCmd) boods(ctx context.Context, e *cli.Env) error {
	line := e.Progress()
	defer line.Clear()
	s, err := c.boodsSettings()
	if err == nil {
		err = s.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	r, err := arena.RunBOODS(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	for _, l := range r.Lines {
		if err := cli.Show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	if c.JSON { // the report has the rest
		return r.Write(c.Out)
	}
	for _, d := range r.Changes {
		if err := cli.Show(e, false, d, d.String()); err != nil {
			return err
		}
	}
	for _, s := range r.Searches {
		if err := cli.Show(e, false, s, s.String()); err != nil {
			return err
		}
	}
	return r.Write(c.Out)
}

func (c *ArenaCmd) boodsSettings() (s arena.BOODS, err error) {
	switch {
	case c.BackEnd != "sim":
		return s, errors.New("--suite bo-ods is simulated; leave --back-end out, or have sim")
	case c.Trace != "":
		return s, errors.New("--suite bo-ods has batches of its own; leave --trace out")
	}
	others := []struct{ flags, empty any }{
		{&c.ElasticFlags, &ElasticFlags{}}, {&c.PointFlags, &PointFlags{}}, {&c.BatchFlags, &BatchFlags{}}, {&c.LiveFlags, &LiveFlags{}}, {&c.OffloadFlags, &OffloadFlags{}},
		{&c.BrownoutFlags, &BrownoutFlags{}}, {&c.RemoeFlags, &RemoeFlags{}},
	}
	for _, other := range others {
		if name, err := cli.Changed(other.flags, other.empty); err != nil || name != "" {
			return s, errors.Join(err, fmt.Errorf("--%s is of another suite; leave it out", name))
		}
	}
	if err := c.checkBOODS(); err != nil {
		return s, err
	}
	s = arena.BOODS{
		Shapes: c.Shapes, Policies: c.Policies, Platform: c.Rental, Sequences: c.Sequences, Tokens: c.BatchTokens, Learn: 1, Test: c.Batches, Rounds: c.TuneRounds, Pairs: c.Pairs,
		Limit: c.Latency, Seed: c.Seed, Seeds: c.Seeds, Threads: runtime.GOMAXPROCS(0),
	}
	if strings.Join(c.Shapes, ",") == moelessShapes {
		s.Shapes = strings.Split(boodsShapes, ",")
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

// checkBOODS refuses numbers out of range by their flags' names.
func (c *ArenaCmd) checkBOODS() error {
	var latency error
	if !(c.Latency > 0 && c.Latency <= arena.MostLatency) {
		latency = fmt.Errorf("--latency is %v; it must be above 0, and %d at most", c.Latency, arena.MostLatency)
	}
	return errors.Join(
		up.CheckRange("batch-tokens", c.BatchTokens, arena.LeastBatchTokens, arena.MostBatchTokens), up.CheckRange("batches", c.Batches, 1, arena.MostBatches),
		up.CheckRange("sequences", c.Sequences, 1, batched.MostSequences), up.CheckRange("tune-rounds", c.TuneRounds, 1, arena.MostTuneRounds),
		up.CheckRange("pairs", c.Pairs, 1, bo.MostPairs), up.CheckRange("seeds", c.Seeds, 1, arena.MostSeeds), latency)
}
