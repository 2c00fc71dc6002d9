package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// PipelineFlags are of suites that scale on hosts.
type PipelineFlags struct {
	TextsFlag `embed:""`

	Hosts       int           `default:"8" help:"Hosts that hold experts." placeholder:"N"`
	CV          float64       `name:"cv" default:"0.2" advanced:"" help:"Coefficient of variation up to which a layer counts as balanced." placeholder:"RATIO"`
	KeepAlive   time.Duration `default:"60s" help:"How long a replica without rows stays in memory." placeholder:"TIME"`
	Time        profiles.Time `default:"roofline" enum:"roofline,measured,printed" help:"What an expert's rows take: roofline (its weights are read once an access), measured (the curve of --profile, live only) or printed (MoEless's price a row)." placeholder:"FORM"`
	BatchRows   int           `default:"256" advanced:"" of:"load,live" help:"With --load or live: most rows of a batch, as attention's --max-rows." placeholder:"N"`
	Horizon     time.Duration `default:"10s" advanced:"" of:"live" help:"Live: how long a change of the plan may take to pay for itself." placeholder:"TIME"`
	MessageTime time.Duration `default:"25us" advanced:"" of:"live" help:"Live: what the scaler takes a message to cost; 0s: nothing." placeholder:"TIME"`
}

// TextsFlag is of suites whose live requests are of real text.
type TextsFlag struct {
	Texts []string `of:"live" help:"Live: files of text, one a domain, in the order in which they follow each other; plain or packed (.gz)." placeholder:"FILE"`
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
	// Fidelity is how far the simulator was from the pipeline, and Changes are from the first
	// policy to the others.
	Fidelity []fidelity   `json:"fidelity"`
	Changes  []liveChange `json:"changes"`
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
	return fmt.Sprintf("%-16s %8.3f ms a layer, p99 %8.3f; computing %6.3f, simulated %6.3f, messages %6.3f, difference %+5.1f %%; "+
		"TTFT %7.1f ms, simulated %7.1f; TPOT %6.2f, simulated %6.2f; %8.0f GB·s billed, %9.0f resident; %5.1f replicas, %d plans; %.1f %% late\n",
		l.Policy, l.Mean, l.P99, l.Computing, l.Sim, l.Messages, 100*l.Difference, l.LiveRequests.TTFT.Mean, l.SimRequests.TTFT.Mean, l.LiveRequests.TPOT.Mean, l.SimRequests.TPOT.Mean,
		l.Cost, l.Resident, l.Replicas, l.Changes, 100*l.LateShare)
}

// live compares policies on the real pipeline. The demo model stands in for the profile's:
// its layers, experts and routing, that device's times. Policies take turns, so that what
// the machine does beside them meets all alike.
func (c *MoElessCmd) live(ctx context.Context, e *cli.Env) error {
	s, err := c.prepareLive()
	if err := c.beforeWork(e, err); err != nil {
		return err
	}
	if err := s.record(ctx, e); err != nil {
		return err
	}
	for repeat := range c.Repeats + 2 { // the first one and the last one measure the pipeline only
		for _, policy := range arena.InTurns(c.Policies, repeat) {
			if err := s.turn(ctx, e, policy, repeat); err != nil {
				return fmt.Errorf("policy %s: %w", policy, err)
			}
		}
	}
	return s.sumUp(e)
}

// sumUp compares over repeats, and writes the report.
func (s *liveSuite) sumUp(e *cli.Env) error {
	r := s.report
	r.Fidelity, r.Changes = fidelities(s.Policies, r.Lines), changesOf(s.Policies, r.Lines)
	if err := errors.Join(showAll(e, s.JSON, r.Fidelity), showAll(e, s.JSON, r.Changes)); err != nil {
		return err
	}
	return writeJSON(s.Out, "live.json", r)
}

// prepareLive checks what is asked for, and makes the requests.
func (c *MoElessCmd) prepareLive() (s *liveSuite, err error) {
	s = &liveSuite{MoElessCmd: c, last: map[string]liveResult{}}
	if err = up.CheckRange("repeats", c.Repeats, 1, arena.MostSeeds); err != nil {
		return nil, err
	}
	if err := up.CheckRange("batch-rows", c.BatchRows, 1, attention.MostRows); err != nil {
		return nil, err
	}
	if len(c.Policies) == 0 {
		c.Policies = livePolicies()
	}
	if err := c.checkPolicies(c.Policies); err != nil {
		return nil, err
	}
	if err := s.fill(); err != nil {
		return nil, err
	}
	if s.profile, err = profiles.Open(c.Profile); err != nil {
		return nil, err
	}
	s.profile.Time = c.Time
	s.report = &liveReport{
		Model: model.DemoName, Profile: s.profile.Name, Device: c.Device, Hosts: c.Hosts, Slice: c.Slice.String(), Requests: len(s.sets[1].requests),
		Scale: replay.Scale{Every: c.Every, Shrink: c.Shrink, Speed: c.Speed}.String(),
	}
	return s, nil
}

// checkPolicies refuses policies that cannot be chosen live, and settings that they do not take.
func (f *PipelineFlags) checkPolicies(names []string) error {
	if _, err := chosenPolicies(names, registry.Live); err != nil {
		return err
	}
	for _, policy := range names {
		if err := f.scaling(policy).Check(); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return nil
}

// chosenPolicies are those that are named, each by what it was named.
func chosenPolicies(names []string, use registry.Use) (all []sim.Policy, err error) {
	for i, text := range names {
		p, err := registry.Choose(text, use)
		if err != nil {
			return nil, fmt.Errorf("--policies: %w", err)
		}
		if slices.Contains(names[:i], text) {
			return nil, fmt.Errorf("--policies: %s is there twice; name it once", text)
		}
		p.Name = text
		all = append(all, p)
	}
	return all, nil
}

// mix is real text, as the demo model's tokens.
func (f *TextsFlag) mix(seed uint64) (*replay.Mix, error) {
	if len(f.Texts) == 0 {
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
	mix := &replay.Mix{Longest: liveContext, Seed: seed}
	for _, path := range f.Texts {
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

// pipeline is one in this process: with a control loop unless plans are static.
func (f *PipelineFlags) pipeline(ctx context.Context, e *cli.Env, policy string, set func(*up.Cmd)) (cluster.Settings, error) {
	return up.InProcess(ctx, e, func(up *up.Cmd) {
		up.Hosts, up.KeepAlive, up.Grouping, up.MaxModelLen, up.MaxRows = f.Hosts, f.KeepAlive, "expert", liveContext, f.BatchRows
		if policy != plan.Static {
			up.Scaling, up.CV, up.Horizon, up.MessageTime = policy, f.CV, f.Horizon, f.MessageTime.String()
		}
		set(up)
	})
}

// scaling are the settings of the scaler.
func (f *PipelineFlags) scaling(policy string) elastic.Settings {
	s := elastic.DefaultSettings()
	s.Scaling, s.CV, s.KeepAlive, s.Horizon, s.MessageSeconds = policy, f.CV, f.KeepAlive.Seconds(), f.Horizon.Seconds(), f.MessageTime.Seconds()
	s.MessageFixed = true
	return s
}

// replayed runs a pipeline, and shows how far it is.
func replayed(ctx context.Context, e *cli.Env, policy string, s replay.Settings) (*replay.Result, error) {
	line := e.Progress()
	defer line.Clear()
	s.Settle, s.Every = time.Second, 250*time.Millisecond
	s.Progress = func(format string, args ...any) { line.Set(policy + ": " + fmt.Sprintf(format, args...)) }
	return replay.Run(ctx, s)
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
