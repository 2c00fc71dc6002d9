package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/loadtest/rerun"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// RerunCmd computes a logged request again.
type RerunCmd struct {
	Request string `arg:"" help:"Id of the request, as its chunks have it."`

	Model            string `help:"Hugging Face model directory, or nats://NAME; without it the demo model in this binary." placeholder:"DIR"`
	Name             string `help:"The model's name in subjects; default is the directory's name." placeholder:"NAME"`
	Wire             string `default:"bf16" enum:"bf16,f32" help:"Element type of rows between the services that answered: bf16 or f32." placeholder:"TYPE"`
	up.PrecisionFlag `embed:""`
	cli.KernelsFlag  `embed:""`
	United           string `help:"Folder of united experts (switchyard distill), of those that stood in for others." placeholder:"DIR"`
	Threads          int    `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`
	JSON             bool   `name:"json" help:"Print a JSON object."`

	cli.ConnectFlags `embed:""`
}

// Run reads the request's log, computes its tokens alone and by direct calls, and reports whether they
// are those of the log.
func (c *RerunCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := c.SetPrecision(m); err != nil {
		return err
	}
	s := rerun.Settings{Model: m, Wire: up.ModelFlags{Wire: c.Wire}.WireType()}
	if c.United != "" {
		if s.United, err = united.OpenAll(c.United, m); err != nil {
			return cli.Usage(fmt.Errorf("--united: %w", err))
		}
		defer func() { err = errors.Join(err, s.United.Close()) }()
	}
	logged, err := c.read(ctx, e, m)
	if err != nil {
		return err
	}
	if err := c.checkClass(logged, m); err != nil {
		return err
	}
	if s.Pool, err = up.NewPool(c.Threads); err != nil {
		return err
	}
	defer s.Pool.Close()
	line := e.Progress()
	defer line.Clear()
	line.Set("computing %d tokens again…", len(logged.Tokens))
	v, err := rerun.Run(ctx, s, logged)
	line.Clear()
	if err != nil {
		return fmt.Errorf("computing request %s again: %w", c.Request, err)
	}
	if err := cli.Show(e, c.JSON, v, v.String()+"\n"); err != nil {
		return err
	}
	if !v.Identical {
		return &cli.ExitError{Code: cli.ExitFailed, Err: cli.ErrQuiet}
	}
	return nil
}

// checkClass refuses to judge a log by other bits than those of its replicas.
func (c *RerunCmd) checkClass(l *rerun.Logged, m *model.Model) error {
	class := cpu.Class() + model.Class(m.Precision, m.KVCache)
	if l.Class == "" || l.Class == class && l.Wire == c.Wire {
		return nil
	}
	return cli.Usage(fmt.Errorf("request %s was answered as %.64q with rows in %.8q, and would be computed again as %q in %q: give the --precision, --kv-cache-dtype, --kernels and --wire of its services; what a GPU computed cannot be computed again",
		c.Request, l.Class, l.Wire, class, c.Wire))
}

// read reads the request's log.
func (c *RerunCmd) read(ctx context.Context, e *cli.Env, m *model.Model) (logged *rerun.Logged, err error) {
	if err := schemas.CheckRequestID(c.Request); err != nil {
		return nil, cli.Usage(err)
	}
	names := schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, up.ModelFlags{Model: []string{c.Model}, Name: c.Name}.ModelToken())}
	id, err := deployment.ModelIdentity(m)
	if err != nil {
		return nil, err
	}
	spec := &m.Spec
	err = e.WithStore(ctx, "rerun", c.ConnectFlags, func(ctx context.Context, conn *bus.Conn) error {
		log := tokenlog.New(conn, names, tokenlog.Settings{
			Rules: tokenlog.Rules{Model: id.Model, Vocab: spec.Vocab, Positions: spec.LongestRequest(), Hidden: spec.Hidden},
		})
		entries, chain, err := log.Fetch(ctx, c.Request)
		switch foreign := chain.Foreign(); {
		case errors.Is(err, tokenlog.ErrUnknown):
			return fmt.Errorf("model %s has no log of request %s: it is unknown, or older than logs are kept (--log-age)", names.Subjects.Model, c.Request)
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("this NATS server has no token log of model %s, so that it was never served there: check --nats, --prefix, --model and --name", names.Subjects.Model)
		case err != nil:
			return err
		case foreign != nil:
			return cli.Usage(fmt.Errorf("request %s was asked of the model with hash %016x (messages of version %d); the model at hand has %016x: give the right one with --model", c.Request, foreign.GetModel(), foreign.GetVersion(), id.Model))
		case chain.End() == nil:
			return fmt.Errorf("request %s has not ended yet", c.Request)
		}
		if logged, err = rerun.Read(entries, spec); err != nil {
			return fmt.Errorf("request %s cannot be computed again: %w", c.Request, err)
		}
		return nil
	})
	return logged, err
}
