package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/drain"
)

// DrainCmd has replicas finish or hand over what they have, and end.
type DrainCmd struct {
	Name    string        `arg:"" help:"A replica's id, or a host's name for all replicas there, as top shows them." placeholder:"REPLICA|HOST"`
	Model   string        `default:"demo" help:"Model that it serves." placeholder:"NAME"`
	Timeout time.Duration `default:"30s" help:"How long each replica may take." placeholder:"TIME"`
	JSON    bool          `name:"json" help:"Print a JSON object for each replica."`

	cli.ConnectFlags `embed:""`
}

// Run asks, and waits until the replicas are gone.
func (c *DrainCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.Timeout <= 0 {
		return cli.Usage(fmt.Errorf("--timeout is %v; it must be above 0", c.Timeout))
	}
	conn, err := e.Connect(ctx, "drain", c.ConnectFlags)
	if err != nil {
		return err
	}
	defer conn.Close()
	var broken error
	host := false
	left, err := drain.Run(ctx, drain.Settings{
		Conn: conn, Names: schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, c.Model)}, Name: c.Name, Within: c.Timeout,
		Tell: func(r drain.Result) {
			host = host || r.Replica != c.Name
			broken = errors.Join(broken, cli.Show(e, c.JSON, r, r.String()))
		},
	})
	if err != nil {
		return cli.Explained(conn, errors.Join(err, broken))
	}
	if broken == nil && host {
		e.Say(fmt.Sprintf("replicas of model %s alone were asked; --model NAME drains those of another model there\n", c.Model),
			"replicas of one model alone were asked", "model", c.Model, "host", c.Name)
	}
	for _, lack := range left.Missing {
		e.Say(fmt.Sprintf("model %s is NOT SERVING now: %s: %s\n", left.Model, lack.Stage, lack.Why),
			"not serving now", "model", left.Model, "stage", lack.Stage, "error", lack.Why)
	}
	return broken
}
