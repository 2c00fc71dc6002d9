package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/inspect"
)

// InspectCmd says what a model is and takes, without serving it.
type InspectCmd struct {
	JSON bool   `name:"json" help:"Print a JSON object."`
	Path string `arg:"" name:"dir|config.json" help:"A Hugging Face model directory, or its config.json alone."`
}

// Run fails where there is no config; a model that cannot be served is an answer.
func (c *InspectCmd) Run(ctx context.Context, e *env) error {
	r, err := inspect.Path(ctx, c.Path)
	if err != nil {
		return usage(err)
	}
	if !c.JSON {
		_, err = fmt.Fprint(e.out, r)
		return err
	}
	return json.NewEncoder(e.out).Encode(r)
}
