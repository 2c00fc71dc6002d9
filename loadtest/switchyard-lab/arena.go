package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// ArenaCmd compares policies: each suite is a command of its own.
type ArenaCmd struct {
	Suite string `hidden:"" help:"Name of the command that follows, in its place." placeholder:"NAME"`

	MoEless  MoElessCmd  `cmd:"" name:"moeless" help:"MoEless' scaling and placement with their baselines, on a trace."`
	Elastic  ElasticCmd  `cmd:"" aliases:"elasticity" help:"Plans that follow a load that shifts, always live."`
	FMoE     OffloadCmd  `cmd:"" name:"fmoe" help:"Experts in a memory budget, with fMoE's baselines."`
	Brownout BrownoutCmd `cmd:"" help:"Bursts, with BrownoutServe's stand-ins for experts and their rivals; live: steps at fixed thresholds."`
	Remoe    RemoeCmd    `cmd:"" help:"Experts as functions of a serverless platform, with Remoe's baselines."`
	BOODS    BOODSCmd    `cmd:"" name:"bo-ods" help:"The same for batches, planned before they come, with BO/ODS's baselines, always simulated."`
}

// suites are the names of all.
var suites = []string{"moeless", "elastic", "elasticity", "fmoe", "brownout", "remoe", "bo-ods"}

// suiteFirst turns "arena --suite NAME" into "arena NAME", and the same where the environment or the
// configuration names the suite.
func suiteFirst(args []string, configured func(key string) string) ([]string, error) {
	at := 0
	for at < len(args) && (strings.HasPrefix(args[at], "-") || at > 0 && strings.HasPrefix(args[at-1], "--") && args[at] != "arena") {
		at++
	}
	if at == len(args) || args[at] != "arena" {
		return args, nil
	}
	name, rest := cutFlag(args[at+1:], "--suite")
	if name == "" && slices.ContainsFunc(rest, func(arg string) bool {
		return slices.Contains(suites, arg) || slices.Contains([]string{"-h", "--help", "--help-all", "--version"}, arg)
	}) {
		return args, nil
	}
	name = cmp.Or(name, os.Getenv("SWITCHYARD_SUITE"), configured("arena-suite"))
	if name == "" {
		return nil, fmt.Errorf("%q names no suite; it must be one of %s, as in arena moeless", strings.Join(args, " "), strings.Join(suites, ", "))
	}
	if !slices.Contains(suites, name) {
		return nil, fmt.Errorf("%q has the suite %q; it must be one of %s, as in arena moeless", strings.Join(args, " "), name, strings.Join(suites, ", "))
	}
	return slices.Concat(args[:at+1], []string{name}, rest), nil
}

// cutFlag takes a flag out of arguments, and returns its last value, "" without one.
func cutFlag(args []string, flag string) (value string, others []string) {
	for i := 0; i < len(args); i++ {
		if v, ok := strings.CutPrefix(args[i], flag+"="); ok {
			value = v
		} else if args[i] == flag && i+1 < len(args) {
			i++
			value = args[i]
		} else {
			others = append(others, args[i])
		}
	}
	return value, others
}

// SuiteFlags are those of every suite.
type SuiteFlags struct {
	cli.KernelsFlag `embed:""`

	Out  string `required:"" help:"Folder for the report: JSON, CSV, and a page with plots." placeholder:"DIR"`
	Seed uint64 `default:"1" help:"Seed of everything that is drawn." placeholder:"N"`
	JSON bool   `name:"json" help:"Print one JSON object for each shape and policy."`
}

// BackEndFlag is of suites that are simulated, or run live.
type BackEndFlag struct {
	BackEnd string `default:"sim" enum:"sim,live" help:"What runs it: sim (a simulated clock) or live (the pipeline on paced hosts)." placeholder:"KIND"`
}

// uses are what a flag with the tag "of" may be of.
var uses = map[string]string{"sim": "--back-end sim", "live": "--back-end live", "load": "--back-end sim with --load"}

// AfterApply refuses flags of the command line that what else it says has no use for: the tag "of" says of what
// they are.
func (f *BackEndFlag) AfterApply(line *kong.Context) error {
	has := []string{f.BackEnd}
	for _, p := range line.Path {
		if p.Flag != nil && p.Flag.Name == "load" && f.BackEnd == "sim" {
			has = append(has, "load")
		}
	}
	for _, p := range line.Path {
		if p.Flag == nil || p.Resolved || !p.Flag.Tag.Has("of") {
			continue
		}
		of := strings.Split(p.Flag.Tag.Get("of"), ",")
		if slices.ContainsFunc(of, func(use string) bool { return slices.Contains(has, use) }) {
			continue
		}
		for i := range of {
			of[i] = uses[of[i]]
		}
		return fmt.Errorf("--%s is of %s only; leave it out", p.Flag.Name, strings.Join(of, " and "))
	}
	return nil
}

// SimulatedFlags are of suites that are simulated again and again.
type SimulatedFlags struct {
	Seeds    int  `default:"5" help:"With how many seeds, from --seed on, the simulation is run for 95 % intervals; 0 for none." placeholder:"N"`
	Variants bool `default:"true" negatable:"" help:"Also vary what the suite has variants of."`
}

// report is what comes of a suite.
type report interface{ Write(folder string) error }

// simulate runs a suite on a simulated clock, unless its settings are wrong, then shows and writes what came of it.
func simulate[R report](e *cli.Env, f *SuiteFlags, wrong error, run func(progress func(string, ...any)) (R, error), show func(R) error) error {
	if err := f.beforeWork(e, wrong); err != nil {
		return err
	}
	line := e.Progress()
	defer line.Clear()
	cluster.BoundGarbage() // workloads live, and decisions leave garbage
	r, err := run(line.Set)
	if err != nil {
		return err
	}
	line.Clear()
	if err := show(r); err != nil {
		return err
	}
	return r.Write(f.Out)
}

// beforeWork refuses what would be found to be wrong when all has been computed: settings
// with an error, and a folder that takes no report.
func (f *SuiteFlags) beforeWork(e *cli.Env, settings error) error {
	e.Quiet()
	if settings != nil {
		return cli.Usage(settings)
	}
	if err := os.MkdirAll(f.Out, 0o755); err != nil {
		return cli.Usage(fmt.Errorf("--out: making the report's folder: %w", err))
	}
	return cli.TakesFiles("--out", f.Out)
}

// showAll prints results, each on a line.
func showAll[T fmt.Stringer](e *cli.Env, asJSON bool, all []T) error {
	for _, one := range all {
		if err := cli.Show(e, asJSON, one, one.String()); err != nil {
			return err
		}
	}
	return nil
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
