package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/inspect"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// InspectCmd says what a model is and takes, without serving it.
type InspectCmd struct {
	JSON           bool   `name:"json" help:"Print a JSON object."`
	Platform       string `help:"Print instead what its experts take as functions of a serverless platform: ${platforms}, or a file of one." placeholder:"NAME"`
	Rows           int    `default:"8" help:"With --platform: rows of an invocation." placeholder:"N"`
	up.KVCacheFlag `embed:""`
	Path           string `arg:"" name:"dir|config.json" help:"A Hugging Face model directory, or its config.json alone."`
}

// usualRows is the default of --rows.
const usualRows = 8

// Run fails where there is no config; a model that cannot be served is an answer.
func (c *InspectCmd) Run(ctx context.Context, e *cli.Env) error {
	r, err := inspect.Path(ctx, c.Path)
	if err != nil {
		return cli.Usage(err)
	}
	if err := r.KeepIn(c.Kind()); err != nil {
		return cli.Usage(fmt.Errorf("--kv-cache-dtype is %s: %w", c.KVCacheDtype, err))
	}
	switch {
	case c.Platform != "":
		return c.rent(e, r)
	case c.Rows != usualRows:
		return cli.Usage(errors.New("--rows is of --platform only; leave it out"))
	}
	return c.print(e, r)
}

// rent prints what experts take on the platform, and what of that is assumed.
func (c *InspectCmd) rent(e *cli.Env, r *inspect.Report) error {
	p, err := profiles.OpenPlatform(c.Platform)
	if err != nil {
		return cli.Usage(fmt.Errorf("--platform: %w", err))
	}
	rented, err := r.Rent(p.Cost(), c.Rows)
	if err != nil {
		return cli.Usage(fmt.Errorf("--platform %s: %w", c.Platform, err))
	}
	if c.JSON {
		return c.print(e, rented)
	}
	return c.print(e, fmt.Sprintf("%s; assumed are %s\n%s", p.About, strings.Join(p.Assumed(), ", "), rented))
}

func (c *InspectCmd) print(e *cli.Env, v any) error {
	if !c.JSON {
		_, err := fmt.Fprint(e.Out, v)
		return err
	}
	return json.NewEncoder(e.Out).Encode(v)
}
