package up

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
	"github.com/switchyard/switchyard/pkg/serverless/promptvector"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// RentFlags rent experts as functions of a serverless platform.
type RentFlags struct {
	Policy     string        `enum:",remoe,bo-ods" default:"" help:"remoe rents experts as functions of a serverless platform that paced hosts stand for, and plans which, with what memory, by the last requests (docs/remoe.md). bo-ods has such hosts for what plan solve --policy bo-ods --apply plans of a batch (docs/bo-ods.md)." placeholder:"NAME" advanced:""`
	Platform   string        `help:"With --policy: the platform, by name (${platforms}) or file; without it kubernetes for remoe and lambda for bo-ods." placeholder:"NAME|FILE" advanced:""`
	SLOTTFT    time.Duration `name:"slo-ttft" default:"8s" help:"With --policy remoe: most time to a request's first token, from a cold start." placeholder:"TIME" advanced:""`
	SLOTPOT    time.Duration `name:"slo-tpot" default:"150ms" help:"With --policy remoe: most time of each token after it, in the mean." placeholder:"TIME" advanced:""`
	SLOPrompt  int           `name:"slo-prompt" default:"500" help:"With --policy remoe: tokens of the longest prompt that these are promised to." placeholder:"N" advanced:""`
	SLOTokens  int           `name:"slo-tokens" default:"200" help:"With --policy remoe: tokens of the longest answer that these are promised to." placeholder:"N" advanced:""`
	GPUPrice   float64       `name:"gpu-price" default:"3" help:"With --policy remoe: what a GB of attention's GPU costs, as a multiple of one of hosts." placeholder:"TIMES" advanced:""`
	PlanFor    string        `name:"plan" enum:"shared,per-request" default:"shared" help:"With --policy remoe: shared plans for the last requests at once; per-request gives each one a plan of its own, and serves one at a time." placeholder:"NAME" advanced:""`
	Similar    string        `name:"prompt-store" help:"With --policy remoe: store of past prompts (switchyard sps build) that foretells a request's experts by similar ones; without it they are those of the last rows." placeholder:"FILE" advanced:""`
	BestEffort bool          `help:"With --policy remoe: start though no plan keeps the objectives, with all experts beside attention." advanced:""`
}

const (
	// rentedHosts are those of a process that rents experts, unless there are to be others: one
	// beside attention, and as many as functions have replicas at most.
	rentedHosts = 5
	// batchHosts are those for plans of batches: a function has so many replicas at most.
	batchHosts = 8
	// rentedStep is ε, rentedAfter how far behind a request its functions begin to start,
	// rentedFor the last requests that a plan is for, and rentedWorth what a change has to save;
	// all are assumed.
	rentedStep  = 1. / 64
	rentedAfter = 50 * time.Millisecond
	rentedFor   = 20
	rentedWorth = 0.02
	// perRequest gives each request its own plan.
	perRequest = "per-request"
)

func (f *RentFlags) rents() bool { return f.Policy == remoe.SharedName }

// prepareRent sets what follows from --policy remoe in other flags, and refuses what does not go
// with it.
func (c *Cmd) prepareRent() error {
	if c.Policy == "" {
		return nil
	}
	with := func(flag, value string) error {
		return cli.Usage(fmt.Errorf("--policy %s does not go with --%s %s; leave one out", c.Policy, flag, value))
	}
	switch {
	case c.Device != "cpu" && c.Device != "paced":
		return with("device", c.Device)
	case c.Profile != "":
		return with("profile", c.Profile)
	case c.Offload != expert.NoOffload:
		return with("offload", c.Offload)
	case c.Scaling != AutoScaling:
		return with("scaling", c.Scaling)
	case c.Grouping != "":
		return with("grouping", c.Grouping)
	case c.Replication > 0:
		return with("replication", fmt.Sprint(c.Replication))
	case c.Auth.On && c.rents():
		return cli.Usage(errors.New("--policy remoe does not go with --auth yet: its planner hears requests, which a scaler's user may not"))
	}
	c.Device, c.Scaling = "cpu", noScaling
	if c.Policy == plan.ForBatches {
		c.Platform = cmp.Or(c.Platform, "lambda")
		if c.Hosts == 1 {
			c.Hosts = batchHosts
		}
		return nil
	}
	c.Platform = cmp.Or(c.Platform, "kubernetes")
	if c.PlanFor == perRequest {
		c.MaxSequences = 1
	}
	if c.Hosts == 1 {
		c.Hosts = rentedHosts
	}
	return nil
}

// invoke has hosts take the time of functions that plans of batches rent.
func (c *Cmd) invoke(e *cli.Env, s *cluster.Settings) error {
	m := s.Node.Shared.Model
	y, platform, err := RentedBy(&m.Spec, "--platform", c.Platform, 1)
	if err != nil {
		return cli.Usage(err)
	}
	y.In = float64(m.Spec.Hidden * s.Node.Shared.Wire.ElementBytes())
	y.Out = y.In
	e.Log.Info("expert hosts take the time of functions of a serverless platform as soon as a plan rents them", "device", paced.NameOf(&profiles.Profile{Name: platform.Name}), "is", platform.About, "assumed", platform.Assumed())
	s.Services.Expert.Batches = &expert.Batches{Name: platform.Name, System: y, Seed: 1}
	return nil
}

// rent has hosts and the scaler rent a model's experts.
func (c *Cmd) rent(e *cli.Env, s *cluster.Settings) error {
	switch c.Policy {
	case "":
		return nil
	case plan.ForBatches:
		return c.invoke(e, s)
	}
	platform, err := profiles.OpenPlatform(c.Platform)
	if err != nil {
		return cli.Usage(fmt.Errorf("--platform: %w", err))
	}
	m := s.Node.Shared.Model
	y, err := rentedSystem(m, rented.Conditions{Platform: platform.Cost(), Ratio: c.GPUPrice})
	if err != nil {
		return cli.Usage(err)
	}
	y.Replicas = max(1, min(y.Replicas, c.Hosts-1))
	shared := remoe.SharedSettings{
		System: y, Plan: remoe.Settings{Step: rentedStep}, SLO: serverless.SLO{TTFT: c.SLOTTFT.Seconds(), TPOT: c.SLOTPOT.Seconds()},
		Most: c.SLOPrompt, Output: c.SLOTokens - 1, Decided: rentedAfter.Seconds(), Window: rentedFor, Worth: rentedWorth, BestEffort: c.BestEffort,
	}
	if c.PlanFor == perRequest {
		shared.Each, shared.Window, shared.Worth = true, 1, 0
	}
	if err := promised(e, shared); err != nil {
		return err
	}
	foretell, err := c.similar(m, s.Node.Shared.Pool, y)
	if err != nil {
		return cli.Usage(fmt.Errorf("--prompt-store: %w", err))
	}
	e.Log.Info("expert hosts take the time and memory of functions of a serverless platform", "device", paced.NameOf(&profiles.Profile{Name: platform.Name}), "is", platform.About, "assumed", platform.Assumed())
	s.Services.Expert.Rent = &expert.Rent{Name: platform.Name, System: y, Seed: 1}
	s.Services.Gate.Payload = y.Functions.Payload
	s.Services.Scaler, err = c.ScalingFlags.Config("static", c.KeepAlive, nil)
	s.Services.Scaler.Rent = &scaler.Rent{SharedSettings: shared, Foretell: foretell}
	if shared.Each {
		turns := &scaler.Turns{}
		s.Services.Scaler.Rent.Turns, s.Services.Attention.Before = turns, turns.Before
	}
	s.EmbedKafka, s.KafkaListen, s.KafkaTopic, s.Count["scaler"] = true, c.KafkaListen, c.KafkaTopic, 1
	return cli.Wrongly(err)
}

// similar returns what foretells a prompt's activation by similar ones; nil without a store of them.
func (c *Cmd) similar(m *model.Model, threads *pool.Pool, y *serverless.System) (func(ids []uint32) ([]float32, error), error) {
	if c.Similar == "" {
		return nil, nil //nolint:nilnil // nothing foretells by prompts
	}
	store, err := mapfile.ReadPrompts(c.Similar)
	if err == nil {
		err = store.Fits(m.Hash, y.Layers, y.Experts)
	}
	if err != nil {
		return nil, err
	}
	reader, err := promptvector.Open(m, threads)
	if err != nil {
		return nil, err
	}
	var one sync.Mutex
	return func(ids []uint32) ([]float32, error) {
		one.Lock()
		defer one.Unlock()
		v, err := reader.Vector(ids)
		if err != nil {
			return nil, err
		}
		return store.Predict(v), nil
	}, nil
}

// promised refuses objectives that no plan keeps, or says that they are not kept.
func promised(e *cli.Env, s remoe.SharedSettings) error {
	p, err := remoe.NewShared(s)
	switch {
	case err == nil && p.Refused != nil:
		e.Log.Warn("--best-effort: the objectives are not kept, and all experts stay beside attention", "why", p.Refused)
	case errors.Is(err, remoe.ErrInfeasible):
		return &cli.ExitError{Code: cli.ExitInfeasible, Err: fmt.Errorf("%w; give other --slo-ttft, --slo-tpot, --slo-prompt or --slo-tokens, or --best-effort to start anyway", err)}
	case err != nil:
		return cli.Usage(err)
	}
	return nil
}

// rentedSystem returns a model on what is rented for it.
func rentedSystem(m *model.Model, on rented.Conditions) (*serverless.System, error) {
	of, err := cluster.RentedModel(m)
	if err != nil {
		return nil, err
	}
	return rented.Of(m.Name, of, cluster.RentedElement).System(on)
}

// ShapeOf returns a model as batches see it.
func ShapeOf(spec *model.Spec) batched.Shape {
	return batched.Shape{
		Name: spec.Family, Layers: spec.MoELayers(), Experts: spec.Experts, TopK: spec.TopK, Hidden: spec.Hidden, Vocab: spec.Vocab,
		Matrices: 1, Inner: int(spec.ExpertParameters()) / spec.Hidden,
	}
}

// RentedBy returns the model on a platform that a flag names, for batches of so many tokens.
func RentedBy(spec *model.Spec, flag, platform string, tokens int) (*scatter.System, *profiles.Platform, error) {
	p, err := profiles.OpenPlatform(platform)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	}
	s, err := ShapeOf(spec).System(batched.Conditions{Platform: p.Cost()}, tokens)
	return s, p, err
}
