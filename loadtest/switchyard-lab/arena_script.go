package main

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// liveSuite are all policies on the same steps. There are two sets of requests, for
// repeats in turn: what the pipeline takes around experts is measured, under the same policy,
// in the repeats before and after, with the other set's, so that a machine that
// becomes slower or faster meanwhile is not taken for a difference.
type liveSuite struct {
	*MoElessCmd
	profile *profiles.Profile
	sets    [2]liveSet
	last    map[string]liveResult // by policy
	report  *liveReport
}

// liveResult is the newest run of a policy, what it has measured, and the one before.
type liveResult struct {
	*replay.Result
	known, before replay.Known
}

// liveSet are requests, and the steps that are made of them.
type liveSet struct {
	requests []replay.Request
	script   []replay.Scripted
}

// apart reports whether each expert is a function of its own.
func (s *liveSuite) apart(policy string) bool { return s.Device == "paced" || policy != plan.Static }

// livePolicies are all that can be chosen live. EPLB decides at an interval that a short
// run has some of.
func livePolicies() []string {
	names := registry.Names(registry.Live)
	for i, name := range names {
		if name == "eplb" {
			names[i] = "eplb:every=5s"
		}
	}
	return names
}

// fill makes the requests: those of the slice, and as many others of it: the next after each, of other
// texts.
func (s *liveSuite) fill() error {
	mix, err := s.mix(s.Seed)
	if err != nil {
		return err
	}
	all, err := s.requests()
	if err != nil {
		return err
	}
	scale := replay.Scale{Every: s.Every, Shrink: s.Shrink, Speed: s.Speed}
	slice := trace.Peak(all, s.Slice)
	if s.sets[1].requests, err = mix.Replay(slice, scale); err != nil {
		return err
	}
	mix.Seed++
	s.sets[0].requests, err = mix.Replay(slice[min(1, len(slice)-1):], scale)
	return err
}

// record has attention batch each set's requests once, under static plans: the steps
// of all other runs.
func (s *liveSuite) record(ctx context.Context, e *cli.Env) error {
	for i := range s.sets {
		r, err := s.run(ctx, e, plan.Static, s.sets[i])
		if err != nil {
			return fmt.Errorf("recording steps: %w", err)
		}
		s.sets[i].script = r.Script()
	}
	return nil
}

// run answers a set's requests under a policy. One microbatch is under way at a time, as in
// the simulator. Each function is one expert, whoever plans, but on the cpu under static
// plans, where a host computes a layer in one call.
func (s *liveSuite) run(ctx context.Context, e *cli.Env, policy string, set liveSet) (*replay.Result, error) {
	pipeline, err := s.pipeline(ctx, e, policy, func(up *up.Cmd) {
		up.Microbatches = 1
		if s.Device == "paced" {
			up.Device, up.Profile, up.ProfileTime = "paced", s.Profile, s.Time
		}
		if !s.apart(policy) {
			up.Grouping = "planner"
		}
	})
	if err != nil {
		return nil, err
	}
	r, err := replayed(ctx, e, policy, replay.Settings{Cluster: pipeline, Requests: set.requests, Script: set.script, Paced: s.Paced})
	if err == nil {
		err = r.Failed()
	}
	return r, err
}

// turn runs a policy, and reports its run before, if that was neither the first nor none.
func (s *liveSuite) turn(ctx context.Context, e *cli.Env, policy string, repeat int) error {
	r, err := s.run(ctx, e, policy, s.sets[repeat%len(s.sets)])
	if err != nil {
		return err
	}
	last := s.last[policy]
	known, err := r.Known(s.simulated(policy, r), s.scaling(policy), s.Device == "paced")
	if err != nil {
		return err
	}
	s.last[policy] = liveResult{r, known, last.known}
	if repeat < 2 {
		return nil
	}
	l, err := s.line(policy, last, last.before.Between(known))
	if err != nil {
		return err
	}
	l.Repeat = repeat - 1
	s.report.Lines = append(s.report.Lines, *l)
	return cli.Show(e, s.JSON, l, l.String())
}

// line is what a policy took, beside the simulator with what other runs have measured.
func (s *liveSuite) line(policy string, r liveResult, k replay.Known) (*liveLine, error) {
	chosen, err := registry.Choose(policy, registry.Live)
	if err != nil {
		return nil, err
	}
	compared, err := r.Compare(s.simulated(policy, r.Result), s.scaling(policy), k)
	if err != nil {
		return nil, err
	}
	return &liveLine{
		Measured: k, Comparison: *compared,
		Line: r.Line(model.DemoName, policy, s.Device+":"+s.profile.Name, s.profile.ExpertBytes.Value, chosen.Serverful),
	}, nil
}

// simulated is the simulator of the same hosts.
func (s *liveSuite) simulated(policy string, r *replay.Result) sim.Settings {
	set := sim.Defaults(sim.Model{Name: model.DemoName, Shape: r.Shape, Profile: s.profile})
	set.Hosts, set.CV, set.KeepAlive = s.Hosts, s.CV, s.KeepAlive.Seconds()
	set.Apart = s.apart(policy)
	division := divide.TakesOf(s.profile.Compute(), s.profile.ExpertBytes.Value, s.MessageTime.Seconds())
	set.Division = &division
	return set
}
