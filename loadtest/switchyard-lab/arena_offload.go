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
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// OffloadFlags are of the suite fmoe.
type OffloadFlags struct {
	Budget   []string `default:"6,12,24,48,96GB" help:"fMoE: memory for experts of all hosts together, in gigabytes." placeholder:"N,...GB"`
	Prefetch int      `default:"3" help:"fMoE: how many layers ahead experts are predicted." placeholder:"N"`
	Maps     int      `default:"1000" help:"fMoE: capacity of the store of expert maps." placeholder:"N"`
	Online   []string `help:"fMoE: traces of requests (CSV as Azure publishes them), of each of which 64 are also served one after the other, with stores that are empty at the start (figure 10); live: these alone, their lengths multiplied by one factor, so that the longest fills the demo model's context." placeholder:"FILE"`
	Routings []string `default:"fitted,weak,strong,unpredictable,recorded" help:"fMoE: which routings are simulated: fitted (to the demo model's, or to --recording), weak and strong (with a quarter of the odds of foretelling, and four times as large ones), unpredictable, and recorded (--recording itself)." placeholder:"NAME,..."`
	Served   int      `default:"12" help:"fMoE: how many texts are served; stores are built of 28 others." placeholder:"N"`
}

// moelessShapes is the default of --shapes, which the suite fmoe has its own in place of.
const moelessShapes = "mixtral-8x7b,phi-3.5-moe,llama-4-scout"

// offload compares policies of experts in a memory budget.
func (c *ArenaCmd) offload(ctx context.Context, e *cli.Env) error {
	if c.BackEnd == "live" && len(c.Online) > 0 {
		return c.offloadOnline(ctx, e)
	}
	if c.BackEnd == "live" {
		return c.offloadLive(ctx, e)
	}
	line := e.Progress()
	defer line.Clear()
	s, err := c.offloadSettings()
	if err == nil {
		err = s.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	cluster.BoundGarbage() // what is foreseen is kept for many runs
	r, err := arena.RunOffload(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	if err := c.showOffload(e, r); err != nil {
		return err
	}
	return r.Write(c.Out)
}

// showOffload prints a line for each shape, policy and budget as JSON, and for people what is
// beside the paper.
func (c *ArenaCmd) showOffload(e *cli.Env, r *arena.OffloadReport) error {
	if c.JSON {
		for _, l := range r.Summary() {
			if err := cli.Show(e, true, l, ""); err != nil {
				return err
			}
		}
		return nil
	}
	for _, claim := range r.Claims {
		if err := cli.Show(e, false, nil, claim.String()); err != nil {
			return err
		}
	}
	for _, o := range r.Online {
		if err := cli.Show(e, false, nil, o.String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *ArenaCmd) offloadSettings() (s arena.Offload, err error) {
	if err := c.checkOffload(); err != nil {
		return s, err
	}
	texts := offload.DefaultTexts()
	texts.Served = c.Served
	s = arena.Offload{
		Shapes: c.Shapes, Seed: c.Seed, Seeds: max(1, c.Seeds), Distance: c.Prefetch, Capacity: c.Maps, Texts: texts,
		Routing: routing.DemoStates(), Fitted: "Routing is fitted to rows of the demo model", Variants: c.Variants, Routings: c.Routings, Threads: runtime.GOMAXPROCS(0),
	}
	if strings.Join(c.Shapes, ",") == moelessShapes {
		s.Shapes = offload.Models()
	}
	if s.Online, err = c.onlineTraces(); err != nil {
		return s, err
	}
	if s.Budgets, err = budgets(c.Budget); err != nil || c.Recording == "" {
		return s, err
	}
	return s, c.recordedOffload(&s)
}

// onlineTraces reads those of --online.
func (c *ArenaCmd) onlineTraces() (all []arena.OnlineTrace, err error) {
	for _, path := range c.Online {
		rs, err := readFile(path, trace.Read)
		if err != nil {
			return nil, fmt.Errorf("--online: %w", err)
		}
		all = append(all, arena.OnlineTrace{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Requests: rs})
	}
	return all, nil
}

// recordedOffload takes the demo model's routing from --recording, and fits the other models'
// to it.
func (c *ArenaCmd) recordedOffload(s *arena.Offload) (err error) {
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

// checkOffload refuses flags that the suite has no use for.
func (c *ArenaCmd) checkOffload() error {
	if len(c.Policies) > 0 {
		return errors.New("--suite fmoe compares all of its policies where it is simulated; leave --policies out")
	}
	if name, err := cli.Changed(&c.LiveFlags, &LiveFlags{}); err != nil || name != "" {
		return errors.Join(err, fmt.Errorf("--%s is of --back-end live only; leave it out", name))
	}
	return c.checkOffloadFlags()
}

// checkOffloadFlags refuses flags that neither of its back ends has a use for.
func (c *ArenaCmd) checkOffloadFlags() error {
	if c.Trace != "" || c.Lengths != "" {
		return errors.New("--suite fmoe makes its own requests; leave --trace and --lengths out")
	}
	for _, other := range []struct{ flags, empty any }{{&c.ElasticFlags, &ElasticFlags{}}, {&c.PointFlags, &PointFlags{}}, {&c.BatchFlags, &BatchFlags{}}, {&c.BrownoutFlags, &BrownoutFlags{}}, {&c.RemoeFlags, &RemoeFlags{}}, {&c.BOODSFlags, &BOODSFlags{}}} {
		if name, err := cli.Changed(other.flags, other.empty); err != nil || name != "" {
			return errors.Join(err, fmt.Errorf("--%s is of another suite; leave it out", name))
		}
	}
	return nil
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
