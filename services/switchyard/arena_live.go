package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/sim"
	"github.com/switchyard/switchyard/pkg/sim/trace"
	"github.com/switchyard/switchyard/services/switchyard/arena"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/replay"
)

// LiveFlags are of the arena on the real pipeline, with the demo model.
type LiveFlags struct {
	Texts       []string      `help:"Live: files of text, one a domain, in the order in which they follow each other; plain or packed (.gz)." placeholder:"FILE"`
	Device      string        `help:"Live: what hosts compute on: cpu, or paced as --profile; the suite moeless is paced without it, and elasticity on the cpu." placeholder:"KIND"`
	Profile     string        `default:"a6000-mixtral" help:"Live: the device that hosts are paced as, and that is simulated: a profile's name or a file, such as bench --profile-out writes for the cpu." placeholder:"NAME"`
	Repeats     int           `default:"5" help:"Live: how often each policy runs, in turns with the others." placeholder:"N"`
	Every       int           `default:"2" help:"Live: each such request of the trace is sent." placeholder:"N"`
	Shrink      int           `default:"8" help:"Live: by what requests' lengths are divided." placeholder:"N"`
	Speed       float64       `default:"2" help:"Live: how much faster than the trace time runs." placeholder:"RATIO"`
	Horizon     time.Duration `default:"10s" help:"Live: how long a change of the plan may take to pay for itself." placeholder:"TIME"`
	MessageTime time.Duration `default:"25us" help:"Live: what the scaler takes a message to cost; 0s: nothing." placeholder:"TIME"`
}

// liveReport is what the live back end writes.
type liveReport struct {
	Model    string     `json:"model"`
	Profile  string     `json:"profile"`
	Device   string     `json:"device"`
	Hosts    int        `json:"hosts"`
	Slice    string     `json:"slice"`
	Scale    string     `json:"scale"`
	Requests int        `json:"requests"`
	Lines    []liveLine `json:"lines"`
	// Fidelity is how far the simulator was from the pipeline.
	Fidelity []fidelity `json:"fidelity"`
}

// liveLine is a policy on the pipeline, and the simulator's word for it.
type liveLine struct {
	Repeat int `json:"repeat"` // from 1
	replay.Line
	replay.Comparison
	Measured replay.Known `json:"measured"`
}

// String is a line of the report: times a layer in ms, costs in GB·s.
func (l liveLine) String() string {
	return fmt.Sprintf("%-10s %8.3f ms a layer, p99 %8.3f; simulated %8.3f, messages %6.3f, difference %+5.1f %%; "+
		"TTFT %7.1f ms, simulated %7.1f; TPOT %6.2f, simulated %6.2f; %8.0f GB·s billed, %9.0f resident; %5.1f replicas, %d plans; %.1f %% late\n",
		l.Policy, l.Mean, l.P99, l.Sim, l.Messages, 100*l.Difference, l.LiveRequests.TTFT.Mean, l.SimRequests.TTFT.Mean, l.LiveRequests.TPOT.Mean, l.SimRequests.TPOT.Mean,
		l.Cost, l.Resident, l.Replicas, l.Changes, 100*l.LateShare)
}

// live compares policies on the real pipeline. The demo model stands in for the profile's:
// its layers, experts and routing, that device's times. Policies take turns, so that what
// the machine does beside them meets all alike.
func (c *ArenaCmd) live(ctx context.Context, e *env) error {
	r, p, requests, others, err := c.prepareLive()
	if err := c.beforeWork(err); err != nil {
		return err
	}
	for repeat := range c.Repeats {
		for _, policy := range inTurn(c.Policies, repeat) {
			l, err := c.liveLine(ctx, e, policy, p, requests, others)
			if err != nil {
				return fmt.Errorf("policy %s: %w", policy, err)
			}
			l.Repeat = repeat + 1
			r.Lines = append(r.Lines, *l)
			if err := show(e, c.JSON, l, l.String()); err != nil {
				return err
			}
		}
	}
	r.Fidelity = fidelities(c.Policies, r.Lines)
	for _, f := range r.Fidelity {
		if err := show(e, c.JSON, f, f.String()); err != nil {
			return err
		}
	}
	return writeJSON(c.Out, "live.json", r)
}

// prepareLive checks what is asked for, and makes the requests.
func (c *ArenaCmd) prepareLive() (r *liveReport, p *profiles.Profile, requests, others []replay.Request, err error) {
	if c.Device, err = c.device("paced"); err != nil {
		return nil, nil, nil, nil, err
	}
	if err = checkRange("repeats", c.Repeats, 1, arena.MostSeeds); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := c.checkPolicies(); err != nil {
		return nil, nil, nil, nil, err
	}
	if requests, others, err = c.liveRequests(); err != nil {
		return nil, nil, nil, nil, err
	}
	if p, err = profiles.Open(c.Profile); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := p.Take(c.Time); err != nil {
		return nil, nil, nil, nil, fmt.Errorf("--time: %w", err)
	}
	return &liveReport{
		Model: model.DemoName, Profile: p.Name, Device: c.Device, Hosts: c.Hosts, Slice: c.Slice.String(), Requests: len(requests),
		Scale: replay.Scale{Every: c.Every, Shrink: c.Shrink, Speed: c.Speed}.String(),
	}, p, requests, others, nil
}

// checkPolicies refuses policies that cannot be chosen live, and settings that they do not take.
func (c *ArenaCmd) checkPolicies() error {
	if len(c.Policies) == 0 {
		c.Policies = []string{plan.Static, "reactive", "moeless"}
	}
	if _, err := c.chosen(registry.Live); err != nil {
		return err
	}
	for _, policy := range c.Policies {
		if err := c.scaling(policy).Check(); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return nil
}

// inTurn is the order of policies in a repeat: forwards and backwards in turns.
func inTurn(policies []string, repeat int) []string {
	order := slices.Clone(policies)
	if repeat%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// device is what hosts compute on, for a suite that has one without being told.
func (f *LiveFlags) device(usual string) (string, error) {
	switch d := cmp.Or(f.Device, usual); d {
	case "cpu", "paced":
		return d, nil
	default:
		return "", fmt.Errorf("--device is %q; it must be cpu or paced", d)
	}
}

// liveRequests are those of the slice, and, to measure messages with, as many others
// of it: the next after each, of other texts.
func (c *ArenaCmd) liveRequests() (requests, others []replay.Request, err error) {
	mix, err := c.mix()
	if err != nil {
		return nil, nil, err
	}
	all, err := c.requests()
	if err != nil {
		return nil, nil, err
	}
	scale := replay.Scale{Every: c.Every, Shrink: c.Shrink, Speed: c.Speed}
	slice := trace.Peak(all, c.Slice)
	if requests, err = mix.Replay(slice, scale); err != nil {
		return nil, nil, err
	}
	mix.Seed++
	others, err = mix.Replay(slice[min(1, len(slice)-1):], scale)
	return requests, others, err
}

// mix is real text, as the demo model's tokens.
func (c *ArenaCmd) mix() (*replay.Mix, error) {
	if len(c.Texts) == 0 {
		return nil, errors.New("--texts is missing; name a file of text for each domain")
	}
	m, err := model.Demo()
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Open(m.File)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	mix := &replay.Mix{Longest: liveContext, Seed: c.Seed}
	for _, path := range c.Texts {
		text, err := readText(path)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		ids, err := t.EncodePrompt(text, true)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("encoding %s: %w", path, err), m.Close())
		}
		mix.Texts = append(mix.Texts, ids)
	}
	return mix, m.Close()
}

// liveContext is the most tokens of a request.
const liveContext = 256

// liveRun answers requests under a policy. One microbatch is under way at a time, as in
// the simulator. Each function is one expert, whoever plans, but on the cpu under static
// plans, where a host computes a layer in one call.
func (c *ArenaCmd) liveRun(ctx context.Context, e *env, policy string, requests []replay.Request) (*replay.Result, error) {
	s, err := c.pipeline(ctx, e, policy, func(up *UpCmd) {
		up.Microbatches = 1
		if c.Device == "paced" {
			up.Device, up.Profile, up.ProfileTime = "paced", c.Profile, c.Time
		}
		if !c.apart(policy) {
			up.Grouping = "planner"
		}
	})
	if err != nil {
		return nil, err
	}
	r, err := c.replay(ctx, e, policy, s, requests)
	if err == nil {
		err = r.Failed()
	}
	return r, err
}

// apart says whether each expert is a function of its own.
func (c *ArenaCmd) apart(policy string) bool { return c.Device == "paced" || policy != plan.Static }

// pipeline is one in this process: with a control loop unless plans are static.
func (c *ArenaCmd) pipeline(ctx context.Context, e *env, policy string, set func(*UpCmd)) (cluster.Settings, error) {
	return inProcess(ctx, e, func(up *UpCmd) {
		up.Hosts, up.KeepAlive, up.Grouping, up.MaxModelLen = c.Hosts, c.KeepAlive, "expert", liveContext
		if policy != plan.Static {
			up.Scaling, up.CV, up.Horizon, up.MessageTime = policy, c.CV, c.Horizon, c.MessageTime.String()
		}
		set(up)
	})
}

// scaling are the settings of the scaler.
func (c *ArenaCmd) scaling(policy string) elastic.Settings {
	s := elastic.DefaultSettings()
	s.Scaling, s.CV, s.KeepAlive, s.Horizon, s.MessageSeconds = policy, c.CV, c.KeepAlive.Seconds(), c.Horizon.Seconds(), c.MessageTime.Seconds()
	s.ZeroAfter, s.MessageFixed = s.KeepAlive, true
	return s
}

// replay runs a pipeline, and shows how far it is.
func (c *ArenaCmd) replay(ctx context.Context, e *env, policy string, s cluster.Settings, requests []replay.Request) (*replay.Result, error) {
	line := e.progress()
	defer line.Clear()
	return replay.Run(ctx, replay.Settings{
		Cluster: s, Requests: requests, Settle: time.Second, Every: 250 * time.Millisecond, Views: time.Second,
		Progress: func(format string, args ...any) { line.Set(policy + ": " + fmt.Sprintf(format, args...)) },
	})
}

// liveLine is what a policy took for requests, beside the simulator. What the pipeline takes
// around experts is measured under the same policy with the others: the more replicas
// there are, the more messages.
func (c *ArenaCmd) liveLine(ctx context.Context, e *env, policy string, p *profiles.Profile, requests, others []replay.Request) (*liveLine, error) {
	chosen, err := registry.Choose(policy, registry.Live)
	if err != nil {
		return nil, err
	}
	calibration, err := c.liveRun(ctx, e, policy, others)
	if err != nil {
		return nil, fmt.Errorf("measuring the pipeline: %w", err)
	}
	r, err := c.liveRun(ctx, e, policy, requests)
	if err != nil {
		return nil, err
	}
	s := sim.Defaults(sim.Model{Name: model.DemoName, Shape: r.Shape, Profile: p})
	s.Hosts, s.CV, s.KeepAlive = c.Hosts, c.CV, c.KeepAlive.Seconds()
	s.Apart = c.apart(policy)
	l := &liveLine{Measured: calibration.Known()}
	compared, err := r.Compare(s, c.scaling(policy), l.Measured)
	if err != nil {
		return nil, err
	}
	l.Comparison = *compared
	l.Line = r.Line(model.DemoName, policy, c.Device+":"+p.Name, p.ExpertBytes.Value, chosen.Serverful)
	return l, nil
}

// writeJSON writes a file of the report.
func writeJSON(dir, name string, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return writeOut(dir, name, append(body, '\n'))
}

func writeOut(dir, name string, body []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the report's folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
