package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/sim"
	"github.com/switchyard/switchyard/pkg/sim/trace"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/replay"
)

// LiveFlags are of the arena on the real pipeline, with the demo model.
type LiveFlags struct {
	Texts       []string      `help:"Live: files of text, one a domain, in the order in which they follow each other; plain or packed (.gz)." placeholder:"FILE"`
	Profile     string        `default:"a6000-mixtral" help:"Live: the device that hosts are paced as." placeholder:"NAME"`
	Policies    []string      `default:"static,reactive,moeless" enum:"static,reactive,eplb,moeless" help:"Live: what is compared: static, reactive, eplb, moeless; the suite elasticity has the last one." placeholder:"NAME,..."`
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
	Hosts    int        `json:"hosts"`
	Slice    string     `json:"slice"`
	Scale    string     `json:"scale"`
	Requests int        `json:"requests"`
	Lines    []liveLine `json:"lines"`
}

// liveLine is a policy on the pipeline, and the simulator's word for it.
type liveLine struct {
	replay.Line
	replay.Comparison
	Measured replay.Messages `json:"messages"`
}

// String is a line of the report: times a layer in ms, costs in GB·s.
func (l liveLine) String() string {
	return fmt.Sprintf("%-10s %8.3f ms a layer, p99 %8.3f; simulated %8.3f, messages %6.3f, difference %+5.1f %%; %8.0f GB·s billed, %9.0f resident; %5.1f replicas, %d plans; %.1f %% late\n",
		l.Policy, l.Mean, l.P99, l.Sim, l.Messages, 100*l.Difference, l.Cost, l.Resident, l.Replicas, l.Changes, 100*l.LateShare)
}

// live compares policies on the real pipeline with paced hosts. The demo model
// stands in for the profile's: its layers, experts and routing, that device's times.
func (c *ArenaCmd) live(ctx context.Context, e *env) error {
	if err := c.scaling(c.Policies[0]).Check(); err != nil {
		return usage(fmt.Errorf("--%w", err))
	}
	requests, others, err := c.liveRequests()
	if err != nil {
		return usage(err)
	}
	p, err := profiles.Open(c.Profile)
	if err := c.beforeWork(err); err != nil {
		return err
	}
	p.Time = c.Time
	r := &liveReport{
		Model: model.DemoName, Profile: p.Name, Hosts: c.Hosts, Slice: c.Slice.String(), Requests: len(requests),
		Scale: replay.Scale{Every: c.Every, Shrink: c.Shrink, Speed: c.Speed}.String(),
	}
	for _, policy := range c.Policies {
		l, err := c.liveLine(ctx, e, policy, p, requests, others)
		if err != nil {
			return fmt.Errorf("policy %s: %w", policy, err)
		}
		r.Lines = append(r.Lines, *l)
		if err := show(e, c.JSON, l, l.String()); err != nil {
			return err
		}
	}
	return writeJSON(c.Out, "live.json", r)
}

// liveRequests are those of the slice, and, to measure messages with, as many others
// of it: the next after each, of other texts.
func (c *ArenaCmd) liveRequests() (requests, others []replay.Request, err error) {
	mix, err := c.mix()
	if err != nil {
		return nil, nil, err
	}
	all, err := readTrace(c.Trace)
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

// liveRun answers requests under a policy. One microbatch is under way at a time,
// as in the simulator, and each function is one expert, whoever plans.
func (c *ArenaCmd) liveRun(ctx context.Context, e *env, policy string, requests []replay.Request) (*replay.Result, error) {
	s, err := c.pipeline(ctx, e, policy, func(up *UpCmd) {
		up.Device, up.Profile, up.ProfileTime, up.Microbatches = "paced", c.Profile, c.Time, 1
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

// pipeline is one in this process: with a control loop unless plans are static.
func (c *ArenaCmd) pipeline(ctx context.Context, e *env, policy string, set func(*UpCmd)) (cluster.Settings, error) {
	return inProcess(ctx, e, func(up *UpCmd) {
		up.Hosts, up.KeepAlive, up.Grouping, up.MaxModelLen = c.Hosts, c.KeepAlive, "expert", liveContext
		if policy != plan.Static {
			up.Scaling, up.CV, up.Horizon, up.MessageTime = policy, c.CV, c.Horizon, c.MessageTime
		}
		set(up)
	})
}

// scaling are the settings of the scaler.
func (c *ArenaCmd) scaling(policy string) elastic.Settings {
	s := elastic.DefaultSettings()
	s.Scaling, s.CV, s.KeepAlive, s.Horizon, s.MessageSeconds = policy, c.CV, c.KeepAlive.Seconds(), c.Horizon.Seconds(), c.MessageTime.Seconds()
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

// liveLine is what a policy took for requests, beside the simulator. What messages
// take is measured under the same policy with the others: the more replicas
// there are, the more messages.
func (c *ArenaCmd) liveLine(ctx context.Context, e *env, policy string, p *profiles.Profile, requests, others []replay.Request) (*liveLine, error) {
	calibration, err := c.liveRun(ctx, e, policy, others)
	if err != nil {
		return nil, fmt.Errorf("measuring messages: %w", err)
	}
	r, err := c.liveRun(ctx, e, policy, requests)
	if err != nil {
		return nil, err
	}
	s := sim.Defaults(sim.Model{Name: model.DemoName, Shape: r.Shape, Profile: p})
	s.Hosts, s.CV, s.KeepAlive = c.Hosts, c.CV, c.KeepAlive.Seconds()
	l := &liveLine{Measured: calibration.Messages()}
	compared, err := r.Compare(s, c.scaling(policy), l.Measured)
	if err != nil {
		return nil, err
	}
	l.Comparison = *compared
	l.Line = r.Line(model.DemoName, policy, "paced:"+p.Name, p.ExpertBytes.Value, policy == plan.Static || policy == "eplb")
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
