package arena

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/pkg/policy/copies"
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/policies"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// The parts of a report.
const (
	partMain      = "main"     // policies, on the whole slice
	partRouting   = "routing"  // other skews
	partDistance  = "distance" // of prediction
	partCV        = "cv"       // threshold
	partAblation  = "ablation"
	partSeeds     = "seeds"
	partConstants = "constants" // that are assumed
)

// The kinds of routing.
const (
	routingEven   = "even"
	routingFitted = "fitted"
	routingStrong = "strong"
)

// Run compares all policies on all shapes.
func Run(ctx context.Context, s Settings) (*Report, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	began := time.Now()
	report := newReport(s)
	report.Accuracy = s.of(sim.Model{}).Accuracy
	for _, name := range s.Shapes {
		m, err := sim.Open(name)
		if err != nil {
			return nil, err
		}
		lines, err := s.shape(ctx, m)
		if err != nil {
			return nil, err
		}
		report.Lines = append(report.Lines, lines...)
	}
	report.Seconds = time.Since(began).Seconds()
	report.conclude()
	return report, nil
}

// shape is all that is run for one shape. The long workload is let go before the
// short ones are made.
func (s Settings) shape(ctx context.Context, m sim.Model) ([]Line, error) {
	s.Progress("%s: routing the trace…", m.Name)
	w, err := s.workload(m, s.Routing, s.Slice)
	if err != nil {
		return nil, err
	}
	lines, err := s.runAll(ctx, s.policies(m, partMain, routingFitted, w))
	if err != nil {
		return nil, err
	}
	seeded, err := s.seeded(ctx, m)
	if err != nil {
		return nil, err
	}
	swept, err := s.sweep(ctx, m)
	if lines = append(append(lines, seeded...), swept...); err != nil || !s.Variants {
		return lines, err
	}
	jobs, err := s.variants(m)
	if err != nil {
		return nil, err
	}
	more, err := s.runAll(ctx, jobs)
	return append(lines, more...), err
}

func (s Settings) policies(m sim.Model, part, kind string, w *sim.Workload) (jobs []job) {
	for _, p := range s.Suite.Policies() {
		jobs = append(jobs, job{part: part, routing: kind, settings: s.of(m), policy: p, work: w})
	}
	return jobs
}

// variants are what is varied, on the short slice.
func (s Settings) variants(m sim.Model) (jobs []job, err error) {
	short := min(s.Short, s.Slice)
	var fitted *sim.Workload
	for _, k := range []struct {
		name   string
		params choices.Params
	}{{routingEven, choices.Even()}, {routingStrong, s.Routing.Stronger(strong)}, {routingFitted, s.Routing}} {
		if fitted, err = s.workload(m, k.params, short); err != nil {
			return nil, err
		}
		jobs = append(jobs, s.policies(m, partRouting, k.name, fitted)...)
	}
	w := fitted
	jobs = append(jobs, s.distances(m, w)...)
	jobs = append(jobs, s.thresholds(m, w)...)
	return append(jobs, s.ablation(m, w)...), nil
}

// distances are MoEless' policies at other prediction distances (figures 13, 14).
func (s Settings) distances(m sim.Model, w *sim.Workload) (jobs []job) {
	for _, p := range s.Suite.Policies() {
		for d := 1; d <= min(5, m.Layers) && p.Sees == sim.Ahead; d++ {
			set := s.of(m)
			set.Distance = d
			jobs = append(jobs, job{part: partDistance, routing: routingFitted, value: float64(d), settings: set, policy: p, work: w})
		}
	}
	return jobs
}

// thresholds are MoEless at other thresholds of CV (figures 15, 16).
func (s Settings) thresholds(m sim.Model, w *sim.Workload) (jobs []job) {
	for _, cv := range []float64{0.2, 0.4, 0.6, 0.8, 1} {
		set := s.of(m)
		set.CV = cv
		jobs = append(jobs, job{part: partCV, routing: routingFitted, value: cv, settings: set, policy: policies.MoEless(), work: w})
	}
	return jobs
}

// ablation leaves out parts of MoEless (§6.5, figure 17: all three at once): loads of
// ten minutes in place of predictions, one replica each, round robin. Beside it stands
// what exact predictions would give moeless+.
func (s Settings) ablation(m sim.Model, w *sim.Workload) (jobs []job) {
	const tenMinutes = 600
	plus := copies.Policies()[0].With(nil)
	for _, p := range []sim.Policy{
		policies.MoEless(),
		{Name: "without prediction", Decide: registry.Both(scale.MoEless, place.MoEless), Every: tenMinutes, Start: true},
		{Name: "without scaling", Decide: registry.Both(scale.Static, place.MoEless), Sees: sim.Ahead},
		{Name: "without placement", Decide: registry.Both(scale.MoEless, place.RoundRobin), Sees: sim.Ahead},
		{Name: "without all three", Decide: registry.Both(scale.Static, place.RoundRobin), Every: tenMinutes, Start: true},
		plus,
		{Name: "moeless+, exact loads", Decide: plus.Decide, Sees: sim.Exact, Divides: true},
	} {
		jobs = append(jobs, job{part: partAblation, routing: routingFitted, settings: s.of(m), policy: p, work: w})
	}
	return jobs
}

func percent(now, before float64) string { return fmt.Sprintf("%+.2f %%", 100*(now/before-1)) }
