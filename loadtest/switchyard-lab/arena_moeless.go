package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// MoElessCmd compares scaling and placement on one trace.
type MoElessCmd struct {
	SuiteFlags     `embed:""`
	BackEndFlag    `embed:""`
	SimulatedFlags `embed:""`
	PipelineFlags  `embed:""`
	PointFlags     `embed:""`

	Trace      string        `required:"" help:"Requests: a CSV file as Azure publishes it (TIMESTAMP, ContextTokens, GeneratedTokens), or JSON lines as Mooncake does (timestamp, input_length, output_length); or requests by the hour, with --lengths." placeholder:"FILE"`
	Lengths    string        `advanced:"" help:"Where --trace has requests by the hour (CSV with hour and requests, as of BurstGPT): a trace whose requests lend theirs their tokens, in order." placeholder:"FILE"`
	Slice      time.Duration `default:"1h" help:"How much of the trace: the time of this length with most tokens." placeholder:"TIME"`
	Short      time.Duration `default:"2m" advanced:"" help:"How much for the runs with other routings, distances and thresholds." placeholder:"TIME"`
	Shapes     []string      `default:"mixtral-8x7b,phi-3.5-moe,llama-4-scout" help:"Shapes of models: mixtral-8x7b, phi-3.5-moe, llama-4-scout, deepseek-v3." placeholder:"NAME"`
	Recording  string        `help:"Recording of a model's routing (switchyard record) to fit routing to; without it the fit to one of the demo model." placeholder:"FILE"`
	Predictors string        `advanced:"" help:"Report of predictors (switchyard train-predictor --json): their accuracy by distance." placeholder:"FILE"`
	Distance   int           `default:"1" advanced:"" help:"How many layers ahead loads are predicted." placeholder:"N"`
	Iterations int           `default:"10" advanced:"" help:"Iterations in a second of the trace." placeholder:"N"`
	Sweep      bool          `advanced:"" help:"Also multiply each assumed constant by 1/4, 1/2, 2 and 4 on the short slice."`
	Policies   []string      `help:"What is compared, with settings as in eplb:every=300s: ${simulated_policies}; live: ${live_policies}; all of them without it." placeholder:"NAME"`

	Device  string  `default:"paced" enum:"cpu,paced" of:"live" help:"Live: what hosts compute on: cpu, or paced as --profile." placeholder:"KIND"`
	Profile string  `default:"a6000-mixtral" of:"live" help:"Live: the device that hosts are paced as, and that is simulated: a profile's name or a file, such as bench --profile-out writes for the cpu." placeholder:"NAME"`
	Paced   bool    `advanced:"" of:"live" help:"Live: no step begins sooner than in the run whose steps are made again; without it each begins when its rows are there."`
	Repeats int     `default:"5" of:"live" help:"Live: how often each policy runs, in turns with the others." placeholder:"N"`
	Every   int     `default:"2" advanced:"" of:"live" help:"Live: each such request of the trace is sent." placeholder:"N"`
	Shrink  int     `default:"8" advanced:"" of:"live" help:"Live: by what requests' lengths are divided." placeholder:"N"`
	Speed   float64 `default:"2" advanced:"" of:"live" help:"Live: how much faster than the trace time runs." placeholder:"RATIO"`
}

// PointFlags are those of operating points.
type PointFlags struct {
	Load       []float64     `of:"sim" help:"Serve requests on the simulated clock, at these parts of static's capacity (0: the trace as it is), with fitted and even routing, in place of the rest: points.csv, changes.csv and points.md." placeholder:"RATIO"`
	PointSlice time.Duration `default:"1m" of:"load" help:"How much of the trace is served at each load: the time of this length with most tokens." placeholder:"TIME"`
	Idle       time.Duration `default:"2m" of:"load" advanced:"" help:"Length of the pauses of a further run at the first load, one in every one and a half of it; 0s is no such run." placeholder:"TIME"`
	SLOTTFT    time.Duration `name:"slo-ttft" default:"2s" of:"load" help:"Time to the first token that a good request keeps." placeholder:"TIME"`
	SLOTPOT    time.Duration `name:"slo-tpot" default:"200ms" of:"load" help:"Mean time of a further token that a good request keeps." placeholder:"TIME"`
	Fail       time.Duration `default:"0s" of:"load" advanced:"" help:"When the first host of each run goes for good, with all that it holds; 0s is never." placeholder:"TIME"`
}

// Run compares, and writes the report.
func (c *MoElessCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" {
		return c.live(ctx, e)
	}
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	if len(c.Load) == 0 {
		return simulate(e, &c.SuiteFlags, err, func(progress func(string, ...any)) (*arena.Report, error) {
			s.Progress = progress
			return arena.Run(ctx, s)
		}, func(r *arena.Report) error { return showAll(e, c.JSON, r.MainLines()) })
	}
	p := arena.Points{
		Of: c.Load, Slice: c.PointSlice, Idle: c.Idle, SLO: requests.SLO{TTFT: c.SLOTTFT, TPOT: c.SLOTPOT}, MaxRows: c.BatchRows, Fail: c.Fail,
	}
	if err == nil {
		err = p.Check()
	}
	return simulate(e, &c.SuiteFlags, err, func(progress func(string, ...any)) (*arena.Operating, error) {
		s.Progress = progress
		return arena.Serve(ctx, s, p)
	}, func(r *arena.Operating) error {
		if !c.JSON {
			return showAll(e, false, r.Verdicts)
		}
		for _, l := range r.Lines {
			if err := cli.Show(e, true, l, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *MoElessCmd) settings() (s arena.Settings, err error) {
	s = arena.Settings{
		Suite: arena.MoEless(), BackEnd: arena.Simulator{},
		TraceName: c.traceName(), Slice: c.Slice, Short: c.Short, Seed: c.Seed, Seeds: c.Seeds, PerSecond: c.Iterations, Shapes: c.Shapes,
		Routing: choices.Demo(), Fitted: "Routing is fitted to a recording of the demo model", Domains: 5,
		Hosts: c.Hosts, Distance: c.Distance, CV: c.CV, KeepAlive: c.KeepAlive.Seconds(), Time: c.Time, Variants: c.Variants, Sweep: c.Sweep, Threads: runtime.GOMAXPROCS(0),
	}
	if len(c.Policies) > 0 {
		all, err := chosenPolicies(c.Policies, registry.Simulated)
		if err != nil {
			return s, err
		}
		s.Suite.Policies = func() []sim.Policy { return all }
	}
	if s.Trace, err = c.requests(); err != nil {
		return s, err
	}
	if c.Predictors != "" {
		if s.Methods, err = arena.Methods(c.Predictors); err != nil {
			return s, err
		}
		s.Accuracy = arena.Accuracy(s.Methods, "moeless")
	}
	if c.Recording == "" {
		return s, nil
	}
	fit, domains, err := arena.Fit(c.Recording)
	s.Routing, s.Fitted, s.Domains = fit.Params, fit.String(), domains
	return s, err
}

// requests are those of --trace; where it has them by the hour, they are drawn.
func (c *MoElessCmd) requests() ([]trace.Request, error) {
	rs, err := readFile(c.Trace, trace.Read)
	switch {
	case c.Lengths == "" || err != nil && !errors.Is(err, trace.ErrHours):
		return rs, err
	case err == nil:
		return nil, errors.New("--lengths is of a --trace with requests by the hour only; leave it out")
	}
	hours, err := readFile(c.Trace, trace.ReadHours)
	if err != nil {
		return nil, err
	}
	lengths, err := readFile(c.Lengths, trace.Read)
	if err != nil {
		return nil, fmt.Errorf("--lengths: %w", err)
	}
	return hours.Requests(lengths, c.Seed), nil
}

// traceName is what the report calls the requests.
func (c *MoElessCmd) traceName() string {
	if c.Lengths == "" {
		return filepath.Base(c.Trace)
	}
	return fmt.Sprintf("%s with the tokens of %s", filepath.Base(c.Trace), filepath.Base(c.Lengths))
}
