package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/lab/arena"
	"github.com/switchyard/switchyard/pkg/sim/offload"
	"github.com/switchyard/switchyard/pkg/sim/routing"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// OffloadFlags are of the suite fmoe.
type OffloadFlags struct {
	Budget   []string `default:"6,12,24,48,96GB" help:"fMoE: memory for experts of all hosts together, in gigabytes." placeholder:"N,...GB"`
	Prefetch int      `default:"3" help:"fMoE: how many layers ahead experts are predicted." placeholder:"N"`
	Maps     int      `default:"1000" help:"fMoE: capacity of the store of expert maps." placeholder:"N"`
}

// moelessShapes is the default of --shapes, which the suite fmoe has its own in place of.
const moelessShapes = "mixtral-8x7b,phi-3.5-moe,llama-4-scout"

// offload compares policies of experts in a memory budget.
func (c *ArenaCmd) offload(ctx context.Context, e *env) error {
	line := e.progress()
	defer line.Clear()
	s, err := c.offloadSettings()
	if err == nil {
		err = s.Check()
	}
	if err := c.beforeWork(err); err != nil {
		return err
	}
	s.Progress = line.Set
	cluster.TuneCollector() // what is foreseen is kept for many runs
	r, err := arena.RunOffload(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	for _, claim := range r.Claims {
		if err := show(e, c.JSON, claim, claim.String()); err != nil {
			return err
		}
	}
	return r.Write(c.Out)
}

func (c *ArenaCmd) offloadSettings() (s arena.Offload, err error) {
	if err := c.checkOffload(); err != nil {
		return s, err
	}
	s = arena.Offload{
		Shapes: c.Shapes, Seed: c.Seed, Seeds: max(1, c.Seeds), Distance: c.Prefetch, Capacity: c.Maps, Texts: offload.DefaultTexts(),
		Routing: routing.DemoStates(), Fitted: "Routing is fitted to rows of the demo model", Variants: c.Variants, Threads: runtime.GOMAXPROCS(0),
	}
	if strings.Join(c.Shapes, ",") == moelessShapes {
		s.Shapes = offload.Models()
	}
	if s.Budgets, err = budgets(c.Budget); err != nil || c.Recording == "" {
		return s, err
	}
	return s, c.recordedOffload(&s)
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
	switch {
	case c.BackEnd != "sim":
		return errors.New("--suite fmoe is simulated; leave --back-end out, or have sim")
	case c.Trace != "" || c.Lengths != "":
		return errors.New("--suite fmoe makes its own requests; leave --trace and --lengths out")
	case len(c.Policies) > 0:
		return errors.New("--suite fmoe compares all of its policies; leave --policies out")
	}
	for _, other := range []struct{ flags, empty any }{{&c.ElasticFlags, &ElasticFlags{}}, {&c.PointFlags, &PointFlags{}}, {&c.BatchFlags, &BatchFlags{}}, {&c.LiveFlags, &LiveFlags{}}} {
		if name, err := changed(other.flags, other.empty); err != nil || name != "" {
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
	return all, nil
}
