package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// OffloadCmd compares policies of experts in a memory budget.
type OffloadCmd struct {
	SuiteFlags  `embed:""`
	BackEndFlag `embed:""`

	Seeds     int      `default:"5" of:"sim" help:"With how many seeds, from --seed on, the simulation is run for 95 % intervals; 0 is 1." placeholder:"N"`
	Variants  bool     `default:"true" negatable:"" help:"Also vary distances, capacities and parts of predictors."`
	Shapes    []string `help:"Shapes of models; all that the suite has without it." placeholder:"NAME"`
	Recording string   `help:"Recording of the demo model (switchyard record --inputs) to fit routing to, whose texts are served live." placeholder:"FILE"`
	Budget    []string `default:"6,12,24,48,96GB" help:"Memory for experts of all hosts together, in gigabytes." placeholder:"N,...GB"`
	Prefetch  int      `default:"3" help:"How many layers ahead experts are predicted." placeholder:"N"`
	Maps      int      `default:"1000" help:"Capacity of the store of expert maps." placeholder:"N"`
	Online    []string `help:"Traces of requests (CSV as Azure publishes them), of each of which 64 are also served one after the other, with stores that are empty at the start (figure 10); live: these alone, their lengths multiplied by one factor, so that the longest fills the demo model's context." placeholder:"FILE"`
	Routings  []string `default:"fitted,weak,strong,unpredictable,recorded" help:"Which routings are simulated: fitted (to the demo model's, or to --recording), weak and strong (with a quarter of the odds of foretelling, and four times as large ones), unpredictable, and recorded (--recording itself)." placeholder:"NAME"`
	Served    int      `default:"12" help:"How many texts are served; stores are built of 28 others." placeholder:"N"`
	Policies  []string `of:"live" help:"Live: what is compared; simulated, all are." placeholder:"NAME"`
	Profile   string   `default:"rtx3090-phi-3.5-moe" of:"live" help:"Live: the device that hosts are paced as: a profile's name or a file." placeholder:"NAME"`
	Repeats   int      `default:"5" of:"live" help:"Live: how often each policy runs, in turns with the others." placeholder:"N"`
}

// Run compares, and writes the report.
func (c *OffloadCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" && len(c.Online) > 0 {
		return c.online(ctx, e)
	}
	if c.BackEnd == "live" {
		return c.live(ctx, e)
	}
	s, err := c.settings()
	if err == nil {
		err = s.Check()
	}
	return simulate(e, &c.SuiteFlags, err, func(progress func(string, ...any)) (*arena.OffloadReport, error) {
		s.Progress = progress
		return arena.RunOffload(ctx, s)
	}, func(r *arena.OffloadReport) error { return c.show(e, r) })
}

// show prints a line for each shape, policy and budget as JSON, and for people what is
// beside the paper.
func (c *OffloadCmd) show(e *cli.Env, r *arena.OffloadReport) error {
	if !c.JSON {
		return errors.Join(showAll(e, false, r.Claims), showAll(e, false, r.Online))
	}
	for _, l := range r.Summary() {
		if err := cli.Show(e, true, l, ""); err != nil {
			return err
		}
	}
	return nil
}

func (c *OffloadCmd) settings() (s arena.Offload, err error) {
	texts := offload.DefaultTexts()
	texts.Served = c.Served
	s = arena.Offload{
		Shapes: c.Shapes, Seed: c.Seed, Seeds: max(1, c.Seeds), Distance: c.Prefetch, Capacity: c.Maps, Texts: texts,
		Routing: routing.DemoStates(), Fitted: "Routing is fitted to rows of the demo model", Variants: c.Variants, Routings: c.Routings, Threads: runtime.GOMAXPROCS(0),
	}
	if len(s.Shapes) == 0 {
		s.Shapes = offload.Models()
	}
	if s.Online, err = c.onlineTraces(); err != nil {
		return s, err
	}
	if s.Budgets, err = budgets(c.Budget); err != nil || c.Recording == "" {
		return s, err
	}
	return s, c.recorded(&s)
}

// onlineTraces reads those of --online.
func (c *OffloadCmd) onlineTraces() (all []arena.OnlineTrace, err error) {
	for _, path := range c.Online {
		rs, err := readFile(path, trace.Read)
		if err != nil {
			return nil, fmt.Errorf("--online: %w", err)
		}
		all = append(all, arena.OnlineTrace{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Requests: rs})
	}
	return all, nil
}

// recorded takes the demo model's routing from --recording, and fits the other models'
// to it.
func (c *OffloadCmd) recorded(s *arena.Offload) (err error) {
	m, err := model.Demo()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r, err := arena.Record(c.Recording, m)
	if err != nil {
		return err
	}
	fit, figures, err := r.Fit()
	if err != nil {
		return fmt.Errorf("recording %s: %w", c.Recording, err)
	}
	s.Routing, s.Fitted = fit, fmt.Sprintf("Routing is fitted to %s: %+v gives %+v", c.Recording, figures, fit)
	s.Recorded, err = r.Traffics(s.Texts, s.Seed, s.Seeds)
	return err
}

// budgets reads budgets: numbers, each of which may end in GB.
func budgets(texts []string) (all []float64, err error) {
	for _, text := range texts {
		gb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "GB"), 64)
		if err != nil || !(gb > 0 && gb < 1e6) {
			return nil, fmt.Errorf("--budget has %.32q; it must be gigabytes, such as 6,12,24GB", text)
		}
		if slices.Contains(all, gb) {
			return nil, fmt.Errorf("--budget has %v GB twice; name it once", gb)
		}
		all = append(all, gb)
	}
	if len(all) == 0 {
		return nil, errors.New("--budget names none; give gigabytes, such as 6,12,24GB")
	}
	return all, nil
}
