package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/loadtest/checkpoint"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// QuantiseCmd says what --precision costs a model's weights, or writes a copy with fewer bits.
type QuantiseCmd struct {
	Dir       string  `arg:"" optional:"" name:"dir" help:"Hugging Face model directory; without it the demo model in this binary."`
	Precision string  `default:"q8" enum:"q8,q4" help:"What matrices are quantised to: 8 or 4 bits, with a scale for each 32 weights of an output. With w8a8 and w4a8 weights are those of q8 and q4." placeholder:"KIND"`
	Out       *string `help:"Write a copy of the model into this folder, which must not be there, with matrices as codes and scales of --precision, instead of telling errors. Served without --precision it has the bits of the model with this one." placeholder:"DIR"`
	ShardSize string  `default:"4GiB" help:"Most bytes of weights in a file of --out." placeholder:"BYTES"`
	JSON      bool    `name:"json" help:"Print a JSON object for each matrix of a layer, with those of all its experts as one; of --out a single one."`
}

// defaultShard is that of --shard-size.
const defaultShard = "4GiB"

// Run quantises one matrix after the other, and keeps none.
func (c *QuantiseCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	switch {
	case c.Out == nil && c.ShardSize != defaultShard:
		return cli.Usage(errors.New("--shard-size is of --out; give both, or neither"))
	case c.Out != nil && *c.Out == "":
		return cli.Usage(errors.New("--out is empty: name the folder of the copy, or leave it out"))
	}
	m, err := up.OpenModel(ctx, e, c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if c.Out != nil {
		err = c.write(ctx, e, m, *c.Out)
	} else {
		err = c.tell(ctx, e, m)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.ErrInterrupted
	case errors.Is(err, checkpoint.ErrInput):
		return cli.Usage(err)
	case err != nil && c.Out == nil:
		return cli.Usage(err)
	}
	return err
}

// write writes the copy into a folder, and says what it is.
func (c *QuantiseCmd) write(ctx context.Context, e *cli.Env, m *model.Model, out string) error {
	shard, err := up.ParseBytes("shard-size", c.ShardSize)
	if err != nil {
		return err
	}
	line := e.Progress()
	defer line.Clear()
	sum, err := checkpoint.Quantise(ctx, m, out, checkpoint.Settings{
		Precision: model.Precision(c.Precision), ShardBytes: shard, Threads: up.ModelFlags{}.ComputeThreads(),
		Progress: func(done, total int64) { line.Set("writing %s: %d of %d MiB", out, done>>20, total>>20) },
	})
	if err != nil {
		return err
	}
	line.Clear()
	return cli.Show(e, c.JSON, sum, fmt.Sprintf("%s: %d matrices in %s, %s of %s in %d files\n",
		out, sum.Matrices, sum.Precision, cli.Gigabytes(sum.Bytes), cli.Gigabytes(sum.From), sum.Files))
}

// tell tells the errors of matrices.
func (c *QuantiseCmd) tell(ctx context.Context, e *cli.Env, m *model.Model) error {
	if m.Spec.Quant.Grouped() {
		return m.CheckAhead()
	}
	m.In(model.Precision(c.Precision))
	if err := forward.CheckPrecision(m); err != nil {
		return err
	}
	if !c.JSON {
		_, _ = fmt.Fprintln(e.Out, "layer  matrix      error     stored       kept")
	}
	var stored, kept int64
	err := forward.Roundings(ctx, m, func(r forward.Rounding) error {
		if c.JSON {
			return json.NewEncoder(e.Out).Encode(r)
		}
		stored, kept = stored+r.Stored, kept+r.Kept
		layer := "-"
		if r.Ref.Role.IsLayer() {
			layer = fmt.Sprint(r.Layer)
		}
		_, err := fmt.Fprintf(e.Out, "%5s  %-10s %.5f %10s %10s\n", layer, r.Role, r.Error, cli.Gigabytes(r.Stored), cli.Gigabytes(r.Kept))
		return err
	})
	if err == nil && !c.JSON {
		_, err = fmt.Fprintf(e.Out, "matrices of %s in %s: %s of %s; errors are of all weights of a matrix, in relation to their root mean square\n",
			m.Name, c.Precision, cli.Gigabytes(kept), cli.Gigabytes(stored))
	}
	return err
}
