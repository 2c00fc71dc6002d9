package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/renting"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

const (
	// rentedTold are the requests that tell what is beside experts on this machine.
	rentedTold = 5
	// rentedAnswer are the tokens of an answer, rentedPrompt the least of a prompt and how many
	// more one may have.
	rentedAnswer = 32
	rentedPrompt = 80
	rentedVaried = 60
)

// live serves requests one by one with experts that are rented, and models the same rows.
func (c *RemoeCmd) live(ctx context.Context, e *cli.Env) error {
	if err := c.beforeWork(e, c.checkLive()); err != nil {
		return err
	}
	s, err := up.InProcess(ctx, e, func(f *up.Cmd) {
		f.Policy, f.Scaling, f.Platform, f.GPUPrice, f.MaxModelLen, f.Microbatches = "remoe", up.AutoScaling, c.Platform, c.Prices[0], liveContext, 1
		f.Speculate = 0 // a token a step, as in the model
		f.SLOPrompt, f.SLOTokens = rentedPrompt+rentedVaried, rentedAnswer
	})
	if err != nil {
		return err
	}
	rent := s.Services.Scaler.Rent
	if rent.SLO, err = rentedObjective(rent); err != nil {
		return err
	}
	live := arena.RemoeLive{System: rent.System, MoELayers: deployment.MoELayers(s.Node.Shared.Model), Told: rentedTold}
	requests := c.rentedRequests(s.Node.Shared.Model.Spec.Vocab)
	r, err := replayed(ctx, e, "remoe", replay.Settings{Cluster: s, Requests: requests, Hosts: 1, InTurn: true})
	if err != nil {
		return err
	}
	if err := r.Failed(); err != nil {
		return err
	}
	figures, err := gathered(s.Node.Shared.Telemetry.Registry)
	if err != nil {
		return err
	}
	f, err := live.Compare(r, requests, figures.sum("switchyard_rented_dollars_total"))
	if err != nil {
		return err
	}
	f.Shape, f.Policy, f.Device = "demo", "remoe", "paced:"+c.Platform
	f.GBs, f.Missed = figures.by("switchyard_rented_gb_seconds_total", "part"), figures.by("switchyard_rented_slo_missed_total", "objective")
	if err := cli.Show(e, c.JSON, f, f.String()); err != nil {
		return err
	}
	return writeJSON(c.Out, "live.json", f)
}

// rentedTimes is the objective: a multiple of what requests take with all experts on the host, so that
// some leave, and others stay.
const rentedTimes = 2

// rentedObjective is it, for the longest requests, and refuses one that no plan keeps.
func rentedObjective(r *scaler.Rent) (o serverless.SLO, err error) {
	even := make([]float32, r.System.Layers*r.System.Experts)
	for i := range even {
		even[i] = 1 / float32(r.System.Experts)
	}
	longest := rented.Served{Demand: r.System.Expected(even, r.Most, r.Output)}
	o, err = renting.Objective(r.System, []rented.Served{longest}, rentedTimes)
	if err != nil {
		return o, cli.Usage(err)
	}
	asked := r.SharedSettings
	asked.SLO = o
	if _, err = remoe.NewShared(asked); err != nil {
		return o, cli.Usage(err)
	}
	return o, nil
}

func (c *RemoeCmd) checkLive() error {
	switch {
	case len(c.Policies) > 0 && (len(c.Policies) > 1 || c.Policies[0] != "remoe"):
		return errors.New("arena remoe --back-end live runs remoe alone; leave the other --policies to --back-end sim")
	case c.Requests <= rentedTold || c.Requests > 1000:
		return fmt.Errorf("--requests is %d; it must be %d to 1000, as the first %d tell what is beside experts", c.Requests, rentedTold+1, rentedTold)
	case len(c.Prices) == 0:
		return errors.New("--prices is empty; name one")
	}
	return nil
}

// rentedRequests are prompts of random tokens.
func (c *RemoeCmd) rentedRequests(vocab int) (all []replay.Request) {
	state := splitmix.Mix(c.Seed)
	draw := func(below int) int { return int(splitmix.Next(&state) % uint64(below)) }
	for i := range c.Requests {
		q := replay.Request{Tokens: rentedAnswer, Seed: uint32(i), IDs: make([]uint32, rentedPrompt+draw(rentedVaried))}
		for k := range q.IDs {
			q.IDs[k] = uint32(draw(vocab))
		}
		all = append(all, q)
	}
	return all
}

// by are the values of a metric by one of its labels.
func (f figures) by(name, label string) map[string]float64 {
	all := map[string]float64{}
	for _, one := range f {
		if one.name == name {
			all[one.labels[label]] += one.value
		}
	}
	return all
}
