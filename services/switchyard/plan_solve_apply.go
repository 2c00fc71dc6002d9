package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/plans"
)

// deployed is the model that a batch's plan is of.
type deployed struct {
	name    string
	hash    uint64
	layers  []int // with experts
	experts int
}

// running returns the layers of a running model's plan that are as a batch's plan says, with the rows that it was planned for.
func running(p *scatter.Plan, loads [][]float64, layers []int, hosts []string) (all []*pb.LayerPlan, err error) {
	modes := map[scatter.Mode]pb.TransferMode{scatter.Pipelined: plan.Pipelined, scatter.Indirect: plan.Indirect, scatter.Direct: plan.Direct}
	for l, one := range p.Layers {
		var of []plan.Deployed
		for e, f := range one.Experts {
			of = append(of, plan.Deployed{Memory: uint64(f.Memory), Replicas: f.Replicas, Foretold: loads[l][e]})
		}
		lp, err := plan.Batch(layers[l], modes[one.Mode], one.Beta, of, hosts)
		if err != nil {
			return nil, err
		}
		all = append(all, lp)
	}
	return all, nil
}

// deployTries is how often a plan is written that the hosts' planner gets before.
const deployTries = 5

// deploy writes a batch's plan into the running model's bucket, from where hosts and gates follow it.
func (c *PlanSolveCmd) deploy(ctx context.Context, e *cli.Env, of deployed, p *scatter.Plan, loads [][]float64) error {
	from := PlanFrom{Model: of.name, JSON: c.JSON, ConnectFlags: c.ConnectFlags}
	conn, kv, err := from.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	here, err := plans.Look(ctx, conn.JetStream(), from.names(e))
	if err != nil {
		return cli.Explained(conn, err)
	}
	if here.Scaler != nil {
		return fmt.Errorf("--apply: %s plans for model %s, and would plan anew at once; stop it first", here.Scaler, of.name)
	}
	layers, err := running(p, loads, of.layers, here.IDs)
	if err != nil {
		return cli.Usage(fmt.Errorf("--apply: %w", err))
	}
	bucket, err := conn.EnsureBucket(ctx, 1, kv.Bucket(), 0) // it is there
	if err != nil {
		return cli.Explained(conn, err)
	}
	for range deployTries {
		if err = writePlan(ctx, bucket, of, layers); !errors.Is(err, planstore.ErrConflict) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("--apply: %w", cli.Explained(conn, err))
	}
	functions := 0
	for _, l := range layers {
		functions += len(l.Functions)
	}
	text := fmt.Sprintf("deployed: %d functions in %d layers on %d hosts; `switchyard plan set --policy static` plans by settings again", functions, len(layers), here.Hosts)
	e.Say(text+"\n", text)
	return nil
}

// writePlan writes layers in a planner's place, under the epoch of who wrote last: one of the hosts keeps them then.
func writePlan(ctx context.Context, kv jetstream.KeyValue, of deployed, layers []*pb.LayerPlan) error {
	rules := plan.Rules{MoELayers: of.layers, Experts: of.experts}
	there, err := planstore.New(kv, planstore.Settings{Rules: rules}).Read(ctx)
	if err != nil {
		return err
	}
	by := planstore.Writer{Holds: func(context.Context) (bool, error) { return true, nil }}
	for _, v := range there {
		if v.Raw != nil {
			rules.Kind, by.Epoch = schemas.KindOf(v.Raw), max(by.Epoch, v.Raw.GetWriterEpoch())
		}
	}
	if rules.Kind.ModelHash != of.hash {
		return fmt.Errorf("what runs as model %s is another model than the table's, or no host has planned it yet; give --model as the replicas have it, or wait until they are ready", of.name)
	}
	store := planstore.New(kv, planstore.Settings{Rules: rules})
	settings, _, err := store.Settings(ctx)
	switch {
	case err == nil:
		layers = plan.Under(layers, settings)
	case !errors.Is(err, planstore.ErrIllegalSettings): // under illegal ones hosts plan by the last legal ones, which they alone know
		return err
	}
	if there, err = store.Read(ctx); err != nil {
		return err
	}
	_, _, err = store.Write(ctx, there, layers, by)
	return err
}
