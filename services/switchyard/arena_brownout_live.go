package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/lab/replay"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/sim/bursts"
	"github.com/switchyard/switchyard/pkg/sim/routing"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// dimmed are the settings that are run live: those of BrownoutServe's figures 8 and 9, the first one being
// without a brownout.
var dimmed = []struct {
	name           string
	way, threshold int
}{{"none", 0, brownout.One}, {"way 2, 0", 2, 0}, {"way 4, 0.2", 4, 200_000}, {"way 8, 0.4", 8, 400_000}}

// brownoutLive decodes the same requests at each setting, in turns, on the pipeline with one host, and
// compares what a step takes with the simulator's word on that step's own rows. What a step takes beside
// its experts is not simulated: it is measured without a brownout.
func (c *ArenaCmd) brownoutLive(ctx context.Context, e *env) error {
	s, err := c.dimmer()
	if err := c.beforeWork(err); err != nil {
		return err
	}
	for repeat := range c.Repeats {
		for k := range dimmed {
			if repeat%2 == 1 {
				k = len(dimmed) - 1 - k
			}
			if err := s.run(ctx, e, k); err != nil {
				return fmt.Errorf("%s: %w", dimmed[k].name, err)
			}
		}
	}
	lines := s.lines()
	for _, l := range lines {
		if err := show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	return writeJSON(c.Out, "live.json", lines)
}

// dimmedSuite are the runs of each setting.
type dimmedSuite struct {
	*ArenaCmd
	profile  *profiles.Profile
	requests []replay.Request
	runs     [][]dimmedRun // by setting
}

// dimmedRun is a run's mean step, which only decodes.
type dimmedRun struct {
	seconds       float64
	price         bursts.Price
	steps         int
	late          float64
	before, after int
}

func (c *ArenaCmd) dimmer() (s *dimmedSuite, err error) {
	s = &dimmedSuite{ArenaCmd: c, runs: make([][]dimmedRun, len(dimmed))}
	if c.Device, err = c.device("paced"); err != nil {
		return nil, err
	}
	if c.United == "" {
		return nil, errors.New("--united is missing; name the folder of united experts of ways 2, 4 and 8 (switchyard distill)")
	}
	if err = checkRange("repeats", c.Repeats, 2, quantile.MostValues); err != nil {
		return nil, err
	}
	if err = checkRange("streams", c.Streams, 1, 64); err != nil {
		return nil, err
	}
	if c.Profile == defaultProfile {
		c.Profile = "a100x4-qwen1.5-moe"
	}
	if s.profile, err = profiles.Open(c.Profile); err != nil {
		return nil, err
	}
	mix, err := c.mix()
	if err != nil {
		return nil, err
	}
	const prompt, answer = 24, 72
	for i := range c.Streams {
		text := mix.Texts[i%len(mix.Texts)]
		from := (i * 4 * prompt) % max(1, len(text)-prompt)
		s.requests = append(s.requests, replay.Request{IDs: text[from:min(from+prompt, len(text))], Tokens: answer, Seed: uint32(i)})
	}
	return s, nil
}

// run decodes at a setting.
func (s *dimmedSuite) run(ctx context.Context, e *env, k int) error {
	of := dimmed[k]
	grouping := map[string]string{"separate": "expert", "fused": "planner"}[s.Engine]
	pipeline, err := inProcess(ctx, e, func(up *UpCmd) {
		up.Hosts, up.Grouping, up.MaxModelLen, up.Microbatches = 1, grouping, liveContext, 1
		if s.Device == "paced" {
			up.Device, up.Profile = "paced", s.Profile
		}
		if of.way > 0 {
			up.United = s.United
		}
	})
	if err != nil {
		return err
	}
	if err := s.obey(&pipeline, k); err != nil {
		return err
	}
	r, err := s.replay(ctx, e, of.name, replay.Settings{Cluster: pipeline, Requests: s.requests})
	if err == nil {
		err = r.Failed()
	}
	if err != nil {
		return err
	}
	got := s.measure(r, k)
	if got.steps == 0 {
		return errors.New("no step was seen whole in which all streams decode; have fewer --streams")
	}
	s.runs[k] = append(s.runs[k], got)
	return nil
}

// obey has all steps of a pipeline obey a setting.
func (s *dimmedSuite) obey(pipeline *cluster.Settings, k int) error {
	of := dimmed[k]
	exempt, err := s.exempt(pipeline.Node.Shared.Model.Spec.Layers)
	if err != nil || of.way == 0 {
		return err
	}
	b, err := united.Open(s.United, of.way, pipeline.Node.Shared.Model)
	if err != nil {
		return err
	}
	pipeline.Services.Expert.Plans.Way = of.way
	pipeline.Services.Attention.Directives = ordered{&layer.Order{Exempt: exempt, Stamp: &pb.Stamp{
		Version: 1, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: uint32(of.way), Bundle: b.ID(), Whole: true,
		PrefillMillionths: uint32(of.threshold), DecodeMillionths: uint32(of.threshold),
	}}}
	return b.Close()
}

// exempt are the layers that brownouts spare, of so many.
func (s *dimmedSuite) exempt(layers int) (exempt []uint32, err error) {
	for _, l := range s.Exempt {
		if l < 0 || l >= layers {
			return nil, usage(fmt.Errorf("--exempt names layer %d; the model has layers 0 to %d", l, layers-1))
		}
		exempt = append(exempt, uint32(l))
	}
	return exempt, nil
}

// ordered is a directive that nobody changes.
type ordered struct{ order *layer.Order }

func (o ordered) Now(bool) engine.Directive { return engine.Directive{Order: o.order, Share: 1} }
func (ordered) Step(engine.Stepped)         {}
func (ordered) Wait(engine.Waiting)         {}

// measure is the mean of a run's steps, and the simulator's for the same rows.
func (s *dimmedSuite) measure(r *replay.Result, k int) (m dimmedRun) {
	set := s.simulated(r.Shape, k)
	for _, step := range r.Steps {
		if !s.decodes(step) {
			continue
		}
		loads := [2][]uint32{}
		for _, l := range step.Layers {
			loads[bursts.Decode] = append(loads[bursts.Decode], l.Loads...)
		}
		p := bursts.PriceOf(set, loads, 0)
		m.steps++
		m.seconds += step.Took.Seconds()
		m.price.Experts += p.Experts
		m.before, m.after = m.before+p.Before, m.after+p.After
	}
	n := float64(max(1, m.steps))
	m.seconds, m.price.Experts, m.late = m.seconds/n, m.price.Experts/n, r.LateShare
	return m
}

// decodes says whether each stream has one row in a step.
func (s *dimmedSuite) decodes(step replay.Step) bool {
	return step.Rows == s.Streams && len(step.Parts) == s.Streams
}

// simulated is the simulator of the same host.
func (s *dimmedSuite) simulated(shape routing.Shape, k int) bursts.Settings {
	p, of := s.profile, dimmed[k]
	row := s.profile.ExpertBytes.Value / p.Element.Value * 2 / p.Rate.Value
	return bursts.Settings{
		Device: bursts.Device{Call: p.Call.Value + p.Access.Value, Read: p.ExpertBytes.Value / p.Read.Value, Row: row, Fused: s.Engine == "fused"},
		Shape:  shape, Strategy: brownout.Partial, Way: max(2, of.way), Thresholds: [2]int{of.threshold, of.threshold}, Exempt: s.Exempt,
	}
}

// DimmedLine is a setting on the pipeline, beside the simulator.
type DimmedLine struct {
	Suite     string  `json:"suite"`
	Model     string  `json:"model"`
	Engine    string  `json:"engine"`
	Device    string  `json:"device"`
	Policy    string  `json:"policy"`
	Way       int     `json:"way"`
	Threshold float64 `json:"threshold"`
	Repeats   int     `json:"repeats"`
	Steps     int     `json:"steps"`
	Live      float64 `json:"step_ms"`
	Simulated float64 `json:"simulated_step_ms,omitempty"`
	// Ratio is the throughput by that without a brownout, with half of its 95 % interval; Predicted is what
	// the simulator says.
	Ratio         float64 `json:"throughput_ratio"`
	RatioInterval float64 `json:"throughput_ratio_interval"`
	Predicted     float64 `json:"throughput_ratio_predicted,omitempty"`
	// Difference is live over simulated, less 1, and where that lies with 95 %.
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Within     string  `json:"within_10_percent,omitempty"`
	Accesses   float64 `json:"accesses_ratio"` // and of dispatches, in a separate engine
	Late       float64 `json:"late_ratio"`
}

// lines compare the settings.
func (s *dimmedSuite) lines() (all []DimmedLine) {
	fixed := 0.0
	for _, r := range s.runs[0] {
		fixed += (r.seconds - r.price.Experts) / float64(len(s.runs[0]))
	}
	for k, of := range dimmed {
		l := DimmedLine{
			Suite: "brownout", Model: model.DemoName, Engine: s.Engine, Device: s.Device, Policy: of.name, Way: of.way, Threshold: float64(of.threshold) / brownout.One,
			Repeats: len(s.runs[k]),
		}
		if s.Device == "paced" {
			l.Device += ":" + s.profile.Name
		}
		l.fill(s.runs[0], s.runs[k], fixed, s.Device == "paced")
		all = append(all, l)
	}
	return all
}

// fill compares the repeats of a setting with those without a brownout, beside which they ran.
func (l *DimmedLine) fill(none, runs []dimmedRun, fixed float64, simulated bool) {
	var ratios, off []float64
	before, after, was := 0, 0, 0.0
	for i, r := range runs {
		n := float64(len(runs))
		l.Live, l.Late, l.Steps = l.Live+1e3*r.seconds/n, l.Late+r.late/n, l.Steps+r.steps
		l.Simulated, was = l.Simulated+1e3*(fixed+r.price.Experts)/n, was+1e3*(fixed+none[i].price.Experts)/n
		ratios, off = append(ratios, none[i].seconds/r.seconds), append(off, r.seconds/(fixed+r.price.Experts)-1)
		before, after = before+r.before, after+r.after
	}
	l.Ratio, l.RatioInterval = quantile.Interval95(ratios)
	l.Accesses = float64(after) / float64(max(1, before))
	if !simulated {
		l.Simulated = 0
		return
	}
	l.Predicted = was / l.Simulated
	l.Difference, l.Low, l.High = interval(off)
	l.Within = withinTenth(l.Low, l.High)
}

// String is a line of the report.
func (l DimmedLine) String() string {
	text := fmt.Sprintf("%-8s %-26s %-10s step %7.2f ms, throughput %.3f ± %.3f times, %.3f of the accesses, %d steps", l.Engine, l.Device, l.Policy, l.Live, l.Ratio, l.RatioInterval, l.Accesses, l.Steps)
	if l.Within != "" {
		text += fmt.Sprintf("; simulated %7.2f ms, %.3f times; difference %+.1f %% [%+.1f, %+.1f], within 10 %%: %s; %.1f %% late", l.Simulated, l.Predicted, 100*l.Difference, 100*l.Low, 100*l.High, l.Within, 100*l.Late)
	}
	return text + "\n"
}
