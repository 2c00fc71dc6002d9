package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// ElasticCmd films a load that shifts from domain to domain. BackEnd changes nothing.
type ElasticCmd struct {
	SuiteFlags    `embed:""`
	PipelineFlags `embed:""`

	BackEnd  string        `default:"live" enum:"sim,live" hidden:"" help:"What runs it: always the pipeline." placeholder:"KIND"`
	Policies []string      `help:"The last one is filmed, with settings as in eplb:every=300s: ${live_policies}; moeless without it, whose experts without rows go to zero in each pause." placeholder:"NAME"`
	Device   string        `default:"cpu" enum:"cpu,paced" help:"What hosts compute on: cpu, or paced as --profile." placeholder:"KIND"`
	Profile  string        `default:"a6000-mixtral" help:"The device that hosts are paced as: a profile's name or a file." placeholder:"NAME"`
	Phase    time.Duration `default:"20s" help:"How long each domain's requests last." placeholder:"TIME"`
	Rounds   int           `default:"1" help:"How often all domains follow each other." placeholder:"N"`
	Pause    time.Duration `default:"0s" help:"Time without requests behind each domain's." placeholder:"TIME"`
	Interval time.Duration `default:"125ms" help:"Time between two requests." placeholder:"TIME"`
	Prompt   int           `default:"48" help:"Tokens of a prompt." placeholder:"N"`
	Answer   int           `default:"40" help:"Tokens of an answer." placeholder:"N"`
}

// elasticity is what came of a load that shifts from domain to domain, beside the
// same requests under static plans.
type elasticity struct {
	Model    string  `json:"model"`
	Device   string  `json:"device"`
	Policy   string  `json:"policy"`
	Hosts    int     `json:"hosts"`
	Requests int     `json:"requests"`
	Failed   int     `json:"requests_failed"`
	Changed  int     `json:"answers_changed"` // that differ from those under static plans
	Plans    int     `json:"plan_changes"`
	Cold     uint64  `json:"cold_starts"`
	Ratio    float64 `json:"tpot_p99_ratio"`
	replay.Moves
	Steady    replay.Gaps `json:"tpot_steady"`
	Rescaling replay.Gaps `json:"tpot_rescaling"`
	Static    replay.Gaps `json:"tpot_static_plans"`
	// Reactions are how many changes of load were followed by more replicas.
	Reactions int       `json:"reactions"`
	Planned   quantiles `json:"load_change_to_plan"`
	Serving   quantiles `json:"load_change_to_serving"`
}

type quantiles struct {
	P50 float64 `json:"p50_s"`
	P99 float64 `json:"p99_s"`
}

// String is the report: counts, times between tokens in ms, and reactions in s.
func (y *elasticity) String() string {
	return fmt.Sprintf(`%d requests on %d hosts (%s): %d failed, %d answers differ from those under static plans
%d plans; %d experts gained replicas (up to %d), %d went to zero, %d came back; %d cold starts
time between tokens, p50 / p99: steady %.1f / %.1f ms, rescaling %.1f / %.1f (ratio of p99 %.2f), static plans %.1f / %.1f
from a load change to a plan %.2f s / %.2f s, to warm replicas serving %.2f s / %.2f s (p50 / p99 of %d)
`, y.Requests, y.Hosts, y.Device, y.Failed, y.Changed, y.Plans, y.Gained, y.Most, y.Slept, y.Woke, y.Cold,
		y.Steady.P50, y.Steady.P99, y.Rescaling.P50, y.Rescaling.P99, y.Ratio, y.Static.P50, y.Static.P99,
		y.Planned.P50, y.Planned.P99, y.Serving.P50, y.Serving.P99, y.Reactions)
}

// Run sends requests whose domain shifts, under static plans and under a
// scaler, and films the latter.
func (c *ElasticCmd) Run(ctx context.Context, e *cli.Env) error {
	if len(c.Policies) == 0 {
		c.Policies = []string{"moeless"}
	}
	if err := c.checkPolicies(c.Policies); err != nil {
		return cli.Usage(err)
	}
	if c.Rounds < 1 {
		return cli.Usage(fmt.Errorf("--rounds is %d; it must be at least 1", c.Rounds))
	}
	requests, err := c.shifting()
	if err := c.beforeWork(e, err); err != nil {
		return err
	}
	static, err := c.elasticRun(ctx, e, plan.Static, requests)
	if err != nil {
		return err
	}
	policy := c.Policies[len(c.Policies)-1]
	scaled, err := c.elasticRun(ctx, e, policy, requests)
	if err != nil {
		return err
	}
	y := c.elasticity(scaled, static, requests)
	y.Policy = policy
	if err := cli.Show(e, c.JSON, y, y.String()); err != nil {
		return err
	}
	if err := c.writeElastic(y, scaled); err != nil {
		return err
	}
	if y.Failed+y.Changed > 0 {
		return errors.New("requests failed, or answers changed")
	}
	return nil
}

// shifting are requests of one domain after the other.
func (c *ElasticCmd) shifting() ([]replay.Request, error) {
	mix, err := c.mix(c.Seed)
	if err != nil {
		return nil, err
	}
	var order []int
	for range c.Rounds {
		for d := range mix.Texts {
			order = append(order, d)
		}
	}
	return mix.Phases(order, c.Phase, c.Pause, c.Interval, c.Prompt, c.Answer)
}

// filmedCanaries is how long no token flows before one is asked for: less than a pause takes, so
// that a canary comes where experts go to zero.
const filmedCanaries = 3 * time.Second

func (c *ElasticCmd) elasticRun(ctx context.Context, e *cli.Env, policy string, requests []replay.Request) (*replay.Result, error) {
	s, err := c.pipeline(ctx, e, policy, func(up *up.Cmd) {
		up.CanaryEvery = filmedCanaries
		if c.Device == "paced" {
			up.Device, up.Profile, up.ProfileTime = c.Device, c.Profile, c.Time
		}
	})
	if err != nil {
		return nil, err
	}
	return replayed(ctx, e, policy, replay.Settings{Cluster: s, Requests: requests, Views: time.Second})
}

func (c *ElasticCmd) elasticity(r, static *replay.Result, requests []replay.Request) *elasticity {
	y := &elasticity{Model: "demo", Device: c.Device, Hosts: c.Hosts, Requests: len(requests), Plans: len(r.Changes), Cold: r.Cold, Moves: r.Moves()}
	if c.Device == "paced" {
		y.Device += ":" + c.Profile
	}
	for i, a := range r.Answers {
		if a.Err != nil || static.Answers[i].Err != nil {
			y.Failed++
		} else if !slices.Equal(a.Tokens, static.Answers[i].Tokens) {
			y.Changed++
		}
	}
	y.Steady, y.Rescaling = r.Gaps()
	y.Static, _ = static.Gaps()
	if y.Steady.P99 > 0 {
		y.Ratio = y.Rescaling.P99 / y.Steady.P99
	}
	var planned, serving []float64
	for _, to := range r.Reactions(requests) {
		planned, serving = append(planned, to.Planned.Seconds()), append(serving, to.Serving.Seconds())
	}
	y.Reactions, y.Planned, y.Serving = len(serving), quantilesOf(planned), quantilesOf(serving)
	return y
}

func quantilesOf(seconds []float64) quantiles {
	slices.Sort(seconds)
	return quantiles{quantile.Of(seconds, 0.5), quantile.Of(seconds, 0.99)}
}

// writeElastic writes figures, film and picture.
func (c *ElasticCmd) writeElastic(y *elasticity, r *replay.Result) error {
	layer := r.Liveliest()
	picture, err := r.Picture(layer, fmt.Sprintf("layer %d", layer))
	if err != nil {
		return err
	}
	var film strings.Builder
	for _, v := range r.Views {
		fmt.Fprintf(&film, "--- %.1f s\n%s\n", v.At.Seconds(), v.Text)
	}
	var plans strings.Builder
	for _, p := range r.Changes {
		fmt.Fprintf(&plans, "%8.3f s  layer %d version %d, serving at %.3f s: %s\n", p.At.Seconds(), p.Layer, p.Version, p.Serving.Seconds(), p.Reason)
	}
	return errors.Join(
		writeJSON(c.Out, "elasticity.json", y), writeOut(c.Out, "elasticity.svg", picture),
		writeOut(c.Out, "film.txt", []byte(film.String())), writeOut(c.Out, "plans.txt", []byte(plans.String())),
	)
}
