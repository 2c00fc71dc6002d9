package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/loadtest/upcycle"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// UpcycleCmd makes a Mixture-of-Experts model of a dense one.
type UpcycleCmd struct {
	Dense     string  `arg:"" name:"dense-dir" help:"Hugging Face directory of a dense GPT-2, BERT or BERT2BERT model."`
	Out       string  `arg:"" name:"out" help:"Directory to write; it must not be there."`
	Experts   int     `required:"" help:"Experts of each layer: copies of its feed-forward network." placeholder:"N"`
	TopK      int     `default:"1" help:"Experts of a token." placeholder:"K"`
	Noise     float64 `default:"0.01" help:"Standard deviation of what is added to experts' weights, in that of the tensor; 0 makes exact copies." placeholder:"S"`
	Seed      uint64  `default:"1" help:"Seed of the noise and of the gates." placeholder:"N"`
	ShardSize string  `default:"4GiB" help:"Most bytes of weights in a file." placeholder:"BYTES"`
	JSON      bool    `name:"json" help:"Print a JSON object."`
}

// Run writes the model and says how large it is.
func (c *UpcycleCmd) Run(ctx context.Context, e *cli.Env) error {
	shard, err := up.ParseBytes("shard-size", c.ShardSize)
	if err != nil {
		return err
	}
	line := e.Progress()
	defer line.Clear()
	sum, err := upcycle.Run(ctx, c.Dense, c.Out, upcycle.Settings{
		Experts: c.Experts, TopK: c.TopK, Noise: c.Noise, Seed: c.Seed, ShardBytes: shard,
		Progress: func(done, total int64) { line.Set("writing %s: %d of %d MiB", c.Out, done>>20, total>>20) },
	})
	if errors.Is(err, upcycle.ErrInput) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	line.Clear()
	return cli.Show(e, c.JSON, sum, fmt.Sprintf("%s: %s with the top %d of %d experts, %d tensors of %d MiB in %d files\n",
		c.Out, sum.Family, sum.TopK, sum.Experts, sum.Tensors, sum.Bytes>>20, sum.Files))
}
