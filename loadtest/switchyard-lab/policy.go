package main

import (
	"context"
	"errors"

	"github.com/switchyard/switchyard/loadtest/policy"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// PolicyCmd makes one decision of the control loop and does nothing else.
type PolicyCmd struct {
	Scale PolicyScaleCmd `cmd:"" help:"Decide how many replicas each expert of a layer has; JSON in on stdin, JSON out."`
	Place PolicyPlaceCmd `cmd:"" help:"Decide which hosts run the replicas of a layer; JSON in on stdin, JSON out."`

	Prefetch PolicyPrefetchCmd `cmd:"" help:"Decide which experts of a layer are fetched by an expert map; JSON in on stdin, JSON out."`
	Cache    PolicyCacheCmd    `cmd:"" help:"Count what a host loads whose memory holds some of a layer's experts; JSON in on stdin, JSON out."`
	Split    PolicySplitCmd    `cmd:"" help:"Decide which experts of a layer keep their rows in a brownout; JSON in on stdin, JSON out."`
	LPT      PolicyLPTCmd      `cmd:"" name:"lpt" help:"Share loads among replicas by Longest Processing Time; JSON in on stdin, JSON out."`
	Deploy   PolicyDeployCmd   `cmd:"" help:"Decide which experts of a model are functions of a serverless platform for one request, or how all are deployed for a batch; JSON in on stdin, JSON out."`
}

// PolicyScaleCmd is a dry run of a scaling policy. Its name is no variable:
// SWITCHYARD_NAME is the model's.
type PolicyScaleCmd struct {
	Name string `env:"-" required:"" help:"Policy: ${scaling_policies}." placeholder:"NAME"`
}

// PolicyPlaceCmd is a dry run of a placement policy.
type PolicyPlaceCmd struct {
	Name string `env:"-" required:"" help:"Policy: ${placing_policies}." placeholder:"NAME"`
}

// PolicyPrefetchCmd is a dry run of the selection by an expert map.
type PolicyPrefetchCmd struct {
	Name string `env:"-" required:"" enum:"fmoe" help:"Policy: fmoe." placeholder:"NAME"`
}

// PolicyCacheCmd is a dry run of an order of eviction.
type PolicyCacheCmd struct {
	Name string `env:"-" required:"" enum:"belady,lru,lfu" help:"Order of eviction: belady (what is used last goes first: no order loads less), lru or lfu." placeholder:"NAME"`
}

// PolicySplitCmd is a dry run of a brownout.
type PolicySplitCmd struct {
	Name string `env:"-" required:"" enum:"brownout" help:"Policy: brownout." placeholder:"NAME"`
}

// PolicyLPTCmd is a dry run of sharing loads.
type PolicyLPTCmd struct{}

// PolicyDeployCmd is a dry run of a deployment.
type PolicyDeployCmd struct {
	Name string `env:"-" required:"" enum:"remoe,ods,exact,evaluate,options" help:"What is asked: remoe or, of a batch, ods (its plan), exact (the best of all plans), evaluate (what the given plans are worth) or options (what can be chosen)." placeholder:"NAME"`
}

// Run reads loads and prints each replica's.
func (c *PolicyLPTCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.LPT(e.In) })
}

// Run reads an instance and prints a plan.
func (c *PolicyDeployCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.Deploy(c.Name, e.In) })
}

// Run reads a layer's rows and prints who computes them.
func (c *PolicySplitCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.Split(c.Name, e.In) })
}

// Run reads accesses and prints how many of them load.
func (c *PolicyCacheCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.Cache(c.Name, e.In) })
}

// Run reads a map's layer and prints the experts.
func (c *PolicyPrefetchCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.Prefetch(c.Name, e.In) })
}

// Run reads a layer and prints its experts' replicas.
func (c *PolicyScaleCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.Scale(c.Name, e.In) })
}

// Run reads a layer's replicas and prints where they are placed.
func (c *PolicyPlaceCmd) Run(ctx context.Context, e *cli.Env) error {
	return decide(ctx, e, func() (any, error) { return policy.Place(c.Name, e.In) })
}

// decide prints a decision. A state that is unusable is wrong usage; that replicas fit
// nowhere is a result.
func decide(ctx context.Context, e *cli.Env, by func() (any, error)) error {
	return cli.UntilSignal(ctx, func() error {
		decision, err := by()
		switch {
		case errors.Is(err, policy.ErrState), errors.Is(err, registry.ErrUnknown):
			return cli.Usage(err)
		case err != nil:
			return err
		}
		return cli.Show(e, true, decision, "")
	})
}
