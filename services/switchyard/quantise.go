package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// QuantiseCmd says what --precision costs a model's weights.
type QuantiseCmd struct {
	Dir       string `arg:"" optional:"" name:"dir" help:"Hugging Face model directory; without it the demo model in this binary."`
	Precision string `default:"q8" enum:"q8,q4" help:"What matrices are quantised to: 8 or 4 bits, with a scale for each 32 weights of an output. With w8a8 and w4a8 weights are those of q8 and q4." placeholder:"KIND"`
	JSON      bool   `name:"json" help:"Print a JSON object for each matrix of a layer, with those of all its experts as one."`
}

// Run quantises one matrix after the other, and keeps none.
func (c *QuantiseCmd) Run(ctx context.Context, e *env) (err error) {
	m, err := openModel(ctx, e, c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := (PrecisionFlag{Precision: c.Precision}).set(m); err != nil {
		return err
	}
	err = c.tell(ctx, e, m)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return usage(err)
	}
	return nil
}

func (c *QuantiseCmd) tell(ctx context.Context, e *env, m *model.Model) error {
	if !c.JSON {
		_, _ = fmt.Fprintln(e.out, "layer  matrix      error     stored       kept")
	}
	var stored, kept int64
	err := forward.Roundings(ctx, m, func(r forward.Rounding) error {
		if c.JSON {
			return json.NewEncoder(e.out).Encode(r)
		}
		stored, kept = stored+r.Stored, kept+r.Kept
		layer := "-"
		if r.Ref.Role.IsLayer() {
			layer = fmt.Sprint(r.Layer)
		}
		_, err := fmt.Fprintf(e.out, "%5s  %-10s %.5f %10s %10s\n", layer, r.Role, r.Error, gigabytes(r.Stored), gigabytes(r.Kept))
		return err
	})
	if err == nil && !c.JSON {
		_, err = fmt.Fprintf(e.out, "matrices of %s in %s: %s of %s; errors are of all weights of a matrix, in relation to their root mean square\n",
			m.Name, c.Precision, gigabytes(kept), gigabytes(stored))
	}
	return err
}
