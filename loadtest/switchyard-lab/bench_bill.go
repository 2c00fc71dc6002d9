package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/loadtest/bench"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// billedSeed makes the text whose rows are billed, and what starts of functions take.
const billedSeed = 1

// bills measures what batches are billed.
func (c *BenchCmd) bills(ctx context.Context, e *cli.Env, s bench.TransferSettings, line *terminal.Progress) error {
	s.Wire = tensor.F32 // as the formulas' rows are
	b := bench.Billing{TransferSettings: s, Tokens: c.BillTokens, AtOnce: s.Pool.Threads(), Seed: billedSeed}
	shape := up.ShapeOf(&s.Model.Spec)
	system, _, err := up.RentedBy(&s.Model.Spec, "--bill", c.Bill, c.BillTokens)
	if err != nil {
		return cli.Usage(err)
	}
	loads, err := written(shape, c.BillTokens)
	if err != nil {
		return cli.Usage(err)
	}
	b.System, b.Loads = system, loads
	deployments, err := billed(system, b.Loads)
	if err != nil {
		return cli.Usage(err)
	}
	bills, err := bench.MeasureBills(ctx, b, deployments)
	if err != nil {
		return err
	}
	line.Clear()
	for i := range bills {
		if err := cli.Show(e, c.JSON, &bills[i], bills[i].String()); err != nil {
			return err
		}
	}
	return nil
}

// written are the rows of a text that is written for a shape.
func written(shape batched.Shape, tokens int) ([][]float64, error) {
	const rows = 64 // fewer than any sequence has
	text, err := shape.Write(max(bayes.LeastSamples, tokens/rows), billedSeed)
	if err != nil {
		return nil, err
	}
	all := make([]int, len(text.Sequences))
	for i := range all {
		all[i] = i
	}
	table, err := text.Table(all)
	if err != nil {
		return nil, err
	}
	return table.Real(text.Batch(all, tokens))
}

// billed are LambdaML in each mode, and ODS's plans without a limit and with a tight one.
func billed(s *scatter.System, loads [][]float64) (all []bench.Deployment, err error) {
	for _, m := range scatter.Modes {
		all = append(all, bench.Deployment{Name: "lambdaml", Plan: ods.LambdaML(s, m)})
	}
	const never, tight = 1e9, 1.05
	var no *ods.Infeasible
	if _, err := ods.Exact(s, loads, 0, ods.Default()); !errors.As(err, &no) {
		return nil, fmt.Errorf("no limit at all is kept: %w", err)
	}
	for _, limit := range []float64{never, tight * no.Least} {
		r, err := ods.ODS(s, loads, limit, ods.Default())
		if err != nil {
			return nil, err
		}
		name := "ods"
		if limit < never {
			name = "ods, limit 1.05"
		}
		all = append(all, bench.Deployment{Name: name, Plan: &r.Plan})
	}
	return all, nil
}
