package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/united"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// dimmed are the settings that are run live: those of BrownoutServe's figures 8 and 9.
var dimmed = []struct {
	name           string
	way, threshold int
}{{"way 2, 0", 2, 0}, {"way 4, 0.2", 4, 200_000}, {"way 8, 0.4", 8, 400_000}}

// live decodes the same requests at each setting, in turns, on the pipeline with one host. In each run
// steps with and without a brownout take turns, so that what the machine does beside them meets both alike.
// What a step takes is compared with the simulator's word on that step's own rows. What it takes beside its
// experts is not simulated: it is measured without a brownout, in the same run.
func (c *BrownoutCmd) live(ctx context.Context, e *cli.Env) error {
	s, err := c.dimmer()
	if err := c.beforeWork(e, err); err != nil {
		return err
	}
	for repeat := range c.Repeats {
		for k := range dimmed {
			if repeat%2 == 1 {
				k = len(dimmed) - 1 - k
			}
			if !slices.Contains(c.Ways, dimmed[k].way) {
				continue
			}
			if err := s.run(ctx, e, k); err != nil {
				return fmt.Errorf("%s: %w", dimmed[k].name, err)
			}
		}
	}
	lines := s.lines()
	if err := showAll(e, c.JSON, lines); err != nil {
		return err
	}
	return writeJSON(c.Out, "live.json", lines)
}

// dimmedSuite are the runs of each setting.
type dimmedSuite struct {
	*BrownoutCmd
	profile  *profiles.Profile
	requests []replay.Request
	runs     [][]dimmedRun // by setting
}

func (c *BrownoutCmd) dimmer() (s *dimmedSuite, err error) {
	s = &dimmedSuite{BrownoutCmd: c, runs: make([][]dimmedRun, len(dimmed))}
	if c.United == "" {
		return nil, errors.New("--united is missing; name the folder of united experts of ways 2, 4 and 8 (switchyard distill)")
	}
	if err = up.CheckRange("repeats", c.Repeats, 2, quantile.MostValues); err != nil {
		return nil, err
	}
	if err = up.CheckRange("streams", c.Streams, 1, 64); err != nil {
		return nil, err
	}
	for _, way := range c.Ways {
		if way != 2 && way != 4 && way != 8 {
			return nil, cli.Usage(fmt.Errorf("--ways names %d; settings are of ways 2, 4 and 8", way))
		}
	}
	if s.profile, err = profiles.Open(c.Profile); err != nil {
		return nil, err
	}
	mix, err := c.mix(c.Seed)
	if err != nil {
		return nil, err
	}
	const prompt, answer = 24, 216
	for i := range c.Streams {
		text := mix.Texts[i%len(mix.Texts)]
		from := (i * 4 * prompt) % max(1, len(text)-prompt)
		s.requests = append(s.requests, replay.Request{IDs: text[from:min(from+prompt, len(text))], Tokens: answer, Seed: uint32(i)})
	}
	return s, nil
}

// run decodes at a setting.
func (s *dimmedSuite) run(ctx context.Context, e *cli.Env, k int) error {
	grouping := map[string]string{"separate": "expert", "fused": "planner"}[s.Engine]
	pipeline, err := up.InProcess(ctx, e, func(up *up.Cmd) {
		up.Hosts, up.Grouping, up.MaxModelLen, up.Microbatches, up.United = 1, grouping, liveContext, 1, s.United
		if s.Device == "paced" {
			up.Device, up.Profile = "paced", s.Profile
		}
	})
	if err != nil {
		return err
	}
	turns, err := s.obey(&pipeline, k)
	if err != nil {
		return err
	}
	r, err := replayed(ctx, e, dimmed[k].name, replay.Settings{Cluster: pipeline, Requests: s.requests})
	if err == nil {
		err = r.Failed()
	}
	if err != nil {
		return err
	}
	got := s.measure(r, turns, k)
	if min(got.none.steps, got.dim.steps) == 0 {
		return errors.New("no step was seen whole in which all streams decode; have fewer --streams")
	}
	s.runs[k] = append(s.runs[k], got)
	return nil
}

// obey has every other turn of steps of a pipeline obey a setting.
func (s *dimmedSuite) obey(pipeline *cluster.Settings, k int) (*turns, error) {
	of := dimmed[k]
	exempt, err := s.exempt(pipeline.Node.Shared.Model.Spec.Layers)
	if err != nil {
		return nil, err
	}
	b, err := united.Open(s.United, of.way, pipeline.Node.Shared.Model)
	if err != nil {
		return nil, err
	}
	pipeline.Services.Expert.Plans.Way = of.way
	t := &turns{order: &layer.Order{Exempt: exempt, Stamp: &pb.Stamp{
		Version: 1, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: uint32(of.way), Bundle: b.ID(), Whole: true,
		PrefillMillionths: uint32(of.threshold), DecodeMillionths: uint32(of.threshold),
	}}}
	pipeline.Services.Attention.Directives = t
	return t, b.Close()
}

// exempt are the layers that brownouts spare, of so many.
func (s *dimmedSuite) exempt(layers int) (exempt []uint32, err error) {
	for _, l := range s.Exempt {
		if l < 0 || l >= layers {
			return nil, cli.Usage(fmt.Errorf("--exempt names layer %d; the model has layers 0 to %d", l, layers-1))
		}
		exempt = append(exempt, uint32(l))
	}
	return exempt, nil
}
