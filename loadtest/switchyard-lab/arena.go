package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// ArenaCmd compares policies on one trace.
type ArenaCmd struct {
	cli.KernelsFlag `embed:""`

	Suite      string        `required:"" enum:"moeless,elasticity,fmoe,brownout,remoe,bo-ods" help:"What is compared: moeless (MoEless' scaling and placement with their baselines), elasticity (plans that follow a load that shifts, always live), fmoe (experts in a memory budget, with fMoE's baselines), brownout (bursts, with BrownoutServe's stand-ins for experts and their rivals; live: steps at fixed thresholds), remoe (experts as functions of a serverless platform, with Remoe's baselines, always simulated), or bo-ods (the same for batches, planned before they come, with BO/ODS's baselines, always simulated)." placeholder:"NAME"`
	BackEnd    string        `default:"sim" enum:"sim,live" help:"What runs it: sim (a simulated clock) or live (the pipeline on paced hosts)." placeholder:"KIND"`
	Trace      string        `help:"Requests: a CSV file as Azure publishes it (TIMESTAMP, ContextTokens, GeneratedTokens), or JSON lines as Mooncake does (timestamp, input_length, output_length); or requests by the hour, with --lengths." placeholder:"FILE"`
	Lengths    string        `help:"Where --trace has requests by the hour (CSV with hour and requests, as of BurstGPT): a trace whose requests lend theirs their tokens, in order." placeholder:"FILE"`
	Out        string        `required:"" help:"Folder for the report: JSON, CSV, and a page with plots." placeholder:"DIR"`
	Seed       uint64        `default:"1" help:"Seed of everything that is drawn." placeholder:"N"`
	Recording  string        `help:"Recording of a model's routing (switchyard record) to fit routing to; without it the fit to one of the demo model." placeholder:"FILE"`
	Predictors string        `help:"Report of predictors (switchyard train-predictor --json): their accuracy by distance." placeholder:"FILE"`
	Slice      time.Duration `default:"1h" help:"How much of the trace: the time of this length with most tokens." placeholder:"TIME"`
	Short      time.Duration `default:"2m" help:"How much for the runs with other routings, distances and thresholds." placeholder:"TIME"`
	Shapes     []string      `default:"mixtral-8x7b,phi-3.5-moe,llama-4-scout" help:"Shapes of models: mixtral-8x7b, phi-3.5-moe, llama-4-scout, deepseek-v3." placeholder:"NAME,..."`
	Distance   int           `default:"1" help:"How many layers ahead loads are predicted." placeholder:"N"`
	CV         float64       `name:"cv" default:"0.2" help:"Coefficient of variation up to which a layer counts as balanced." placeholder:"RATIO"`
	KeepAlive  time.Duration `default:"60s" help:"How long a replica without rows stays in memory." placeholder:"TIME"`
	Iterations int           `default:"10" help:"Iterations in a second of the trace." placeholder:"N"`
	Variants   bool          `default:"true" negatable:"" help:"Also vary routing, distance, threshold and the parts of MoEless."`
	Sweep      bool          `help:"Also multiply each assumed constant by 1/4, 1/2, 2 and 4 on the short slice."`
	Time       profiles.Time `default:"roofline" enum:"roofline,measured,printed" help:"What an expert's rows take: roofline (its weights are read once an access), measured (the curve of --profile, live only) or printed (MoEless's price a row)." placeholder:"FORM"`
	Policies   []string      `help:"What is compared, with settings as in eplb:every=300s: ${simulated_policies}, all of them without it; live: ${live_policies}, all of them without it; the suite elasticity has the last one, and moeless without it." placeholder:"NAME,..."`
	JSON       bool          `name:"json" help:"Print one JSON object for each shape and policy."`

	SizeFlags    `embed:""`
	BatchFlags   `embed:""`
	PointFlags   `embed:""`
	LiveFlags    `embed:""`
	ElasticFlags `embed:""`
	OffloadFlags `embed:""`

	BrownoutFlags `embed:""`
	RemoeFlags    `embed:""`
	BOODSFlags    `embed:""`
}

// SizeFlags are fixed where the paper's suites run live.
type SizeFlags struct {
	Seeds int `default:"5" help:"With how many seeds, from --seed on, the short slice is run for 95 % intervals; 0 for none." placeholder:"N"`
	Hosts int `default:"8" help:"Hosts that hold experts." placeholder:"N"`
}

// BatchFlags are of batches that are made anew: at operating points, and live.
type BatchFlags struct {
	BatchRows int `default:"256" help:"With --load or live: most rows of a batch, as attention's --max-rows." placeholder:"N"`
}

// Run compares, and writes the report.
func (c *ArenaCmd) Run(ctx context.Context, e *cli.Env) error {
	e.Quiet()
	if c.Suite == "elasticity" {
		return c.elastic(ctx, e)
	}
	if c.Suite == "fmoe" {
		return c.offload(ctx, e)
	}
	if c.Suite == "brownout" {
		return c.brownout(ctx, e)
	}
	if c.Suite == "remoe" {
		return c.remoe(ctx, e)
	}
	if c.Suite == "bo-ods" {
		return c.boods(ctx, e)
	}
	if err := c.checkOthers(); err != nil {
		return err
	}
	switch {
	case c.Trace == "":
		return cli.Usage(errors.New("--trace is missing; name a CSV file of requests"))
	case c.BackEnd == "live":
		return c.live(ctx, e)
	}
	if len(c.Load) > 0 {
		return c.serve(ctx, e)
	}
	return c.simulate(ctx, e)
}

// checkOthers refuses flags that the suite moeless, or its back end, has no use for.
func (c *ArenaCmd) checkOthers() error {
	for _, other := range []struct {
		suite        string
		flags, empty any
	}{
		{"elasticity", &c.ElasticFlags, &ElasticFlags{}}, {"fmoe", &c.OffloadFlags, &OffloadFlags{}}, {"brownout", &c.BrownoutFlags, &BrownoutFlags{}},
		{"remoe", &c.RemoeFlags, &RemoeFlags{}}, {"bo-ods", &c.BOODSFlags, &BOODSFlags{}},
	} {
		if name, err := cli.Changed(other.flags, other.empty); err != nil || name != "" {
			return cmp.Or(err, cli.Usage(fmt.Errorf("--%s is of --suite %s only; leave it out", name, other.suite)))
		}
	}
	if len(c.Load) == 0 || c.BackEnd == "live" {
		if name, err := cli.Changed(&c.PointFlags, &PointFlags{}); err != nil || name != "" {
			return cmp.Or(err, cli.Usage(fmt.Errorf("--%s is of --back-end sim with --load only; leave it out, or name loads", name)))
		}
	}
	if c.BackEnd == "live" {
		return nil
	}
	if len(c.Load) == 0 {
		if name, err := cli.Changed(&c.BatchFlags, &BatchFlags{}); err != nil || name != "" {
			return cmp.Or(err, cli.Usage(fmt.Errorf("--%s is of --load and of --back-end live; leave it out, or name loads", name)))
		}
	}
	if name, err := cli.Changed(&c.LiveFlags, &LiveFlags{}); err != nil || name != "" {
		return cmp.Or(err, cli.Usage(fmt.Errorf("--%s is of --back-end live only; leave it out", name)))
	}
	return nil
}

// simulate compares on a simulated clock.
func (c *ArenaCmd) simulate(ctx context.Context, e *cli.Env) error {
	line := e.Progress()
	defer line.Clear()
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	cluster.BoundGarbage() // workloads live, and decisions leave garbage
	report, err := arena.Run(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	for _, l := range report.MainLines() {
		if err := cli.Show(e, c.JSON, l, fmt.Sprintf("%-14s %-10s %8.2f ms a layer, p99 %8.2f; %9.0f GB·s billed, %9.0f resident; %5.1f replicas, %d loads\n",
			l.Shape, l.Policy, l.Mean, l.P99, l.Cost, l.Resident, l.Replicas, l.ColdStarts)); err != nil {
			return err
		}
	}
	return report.Write(c.Out)
}

// beforeWork refuses what would be found to be wrong when all has been computed: settings
// with an error, and a folder that takes no report.
func (c *ArenaCmd) beforeWork(settings error) error {
	if settings != nil {
		return cli.Usage(settings)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return cli.Usage(fmt.Errorf("--out: making the report's folder: %w", err))
	}
	return cli.TakesFiles("--out", c.Out)
}

// chosen are the policies that are named, each by what it was named.
func (c *ArenaCmd) chosen(use registry.Use) (all []sim.Policy, err error) {
	for i, text := range c.Policies {
		p, err := registry.Choose(text, use)
		if err != nil {
			return nil, fmt.Errorf("--policies: %w", err)
		}
		if slices.Contains(c.Policies[:i], text) {
			return nil, fmt.Errorf("--policies: %s is there twice; name it once", text)
		}
		p.Name = text
		all = append(all, p)
	}
	return all, nil
}

func (c *ArenaCmd) settings() (s arena.Settings, err error) {
	s = arena.Settings{
		Suite: arena.MoEless(), BackEnd: arena.Simulator{},
		TraceName: c.traceName(), Slice: c.Slice, Short: c.Short, Seed: c.Seed, Seeds: c.Seeds, PerSecond: c.Iterations, Shapes: c.Shapes,
		Routing: routing.Demo(), Fitted: "Routing is fitted to a recording of the demo model", Domains: 5,
		Hosts: c.Hosts, Distance: c.Distance, CV: c.CV, KeepAlive: c.KeepAlive.Seconds(), Time: c.Time, Variants: c.Variants, Sweep: c.Sweep, Threads: runtime.GOMAXPROCS(0),
	}
	if len(c.Policies) > 0 {
		all, err := c.chosen(registry.Simulated)
		if err != nil {
			return s, err
		}
		s.Suite.Policies = func() []sim.Policy { return all }
	}
	if s.Trace, err = c.requests(); err != nil {
		return s, err
	}
	if err := c.readPredictors(&s); err != nil {
		return s, err
	}
	return s, c.readRecording(&s)
}

// requests are those of --trace; where it has them by the hour, they are drawn.
func (c *ArenaCmd) requests() ([]trace.Request, error) {
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

// readFile reads a trace of some form.
func readFile[T any](path string, read func(io.Reader) (T, error)) (of T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return of, fmt.Errorf("reading the trace: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if of, err = read(f); err != nil {
		return of, fmt.Errorf("%s: %w", path, err)
	}
	return of, nil
}

// traceName is what the report calls the requests.
func (c *ArenaCmd) traceName() string {
	if c.Lengths == "" {
		return filepath.Base(c.Trace)
	}
	return fmt.Sprintf("%s with the tokens of %s", filepath.Base(c.Trace), filepath.Base(c.Lengths))
}

func (c *ArenaCmd) readPredictors(s *arena.Settings) (err error) {
	if c.Predictors == "" {
		return nil
	}
	s.Methods, err = arena.Methods(c.Predictors)
	s.Accuracy = arena.Accuracy(s.Methods, "moeless")
	return err
}

func (c *ArenaCmd) readRecording(s *arena.Settings) error {
	if c.Recording == "" {
		return nil
	}
	fit, domains, err := arena.Fit(c.Recording)
	s.Routing, s.Fitted, s.Domains = fit.Params, fit.String(), domains
	return err
}
