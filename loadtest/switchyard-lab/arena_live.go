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

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/replay"
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

// LiveFlags are of the arena on the real pipeline, with the demo model.
type LiveFlags struct {
	Texts       []string      `help:"Live: files of text, one a domain, in the order in which they follow each other; plain or packed (.gz)." placeholder:"FILE"`
	Device      string        `help:"Live: what hosts compute on: cpu, or paced as --profile; the suite moeless is paced without it, and elasticity on the cpu." placeholder:"KIND"`
	Profile     string        `default:"a6000-mixtral" help:"Live: the device that hosts are paced as, and that is simulated: a profile's name or a file, such as bench --profile-out writes for the cpu." placeholder:"NAME"`
	Paced       bool          `help:"Live: no step begins sooner than in the run whose steps are made again; without it each begins when its rows are there."`
	Repeats     int           `default:"5" help:"Live: how often each policy runs, in turns with the others." placeholder:"N"`
	Every       int           `default:"2" help:"Live: each such request of the trace is sent." placeholder:"N"`
	Shrink      int           `default:"8" help:"Live: by what requests' lengths are divided." placeholder:"N"`
	Speed       float64       `default:"2" help:"Live: how much faster than the trace time runs." placeholder:"RATIO"`
	Horizon     time.Duration `default:"10s" help:"Live: how long a change of the plan may take to pay for itself." placeholder:"TIME"`
	MessageTime time.Duration `default:"25us" help:"Live: what the scaler takes a message to cost; 0s: nothing." placeholder:"TIME"`
}

// defaultProfile is that of --profile.
const defaultProfile = "a6000-mixtral"

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
func (c *ArenaCmd) live(ctx context.Context, e *cli.Env) error {
	s, err := c.prepareLive()
	if err := c.beforeWork(err); err != nil {
		return err
	}
	if err := s.record(ctx, e); err != nil {
		return err
	}
	for repeat := range c.Repeats + 2 { // the first one and the last one measure the pipeline only
		for _, policy := range inTurn(c.Policies, repeat) {
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
	for _, f := range r.Fidelity {
		if err := cli.Show(e, s.JSON, f, f.String()); err != nil {
			return err
		}
	}
	for _, y := range r.Changes {
		if err := cli.Show(e, s.JSON, y, y.String()); err != nil {
			return err
		}
	}
	return writeJSON(s.Out, "live.json", r)
}

// prepareLive checks what is asked for, and makes the requests.
func (c *ArenaCmd) prepareLive() (s *liveSuite, err error) {
	s = &liveSuite{ArenaCmd: c, last: map[string]liveResult{}}
	if c.Device, err = c.device("paced"); err != nil {
		return nil, err
	}
	if err = up.CheckRange("repeats", c.Repeats, 1, arena.MostSeeds); err != nil {
		return nil, err
	}
	if err := up.CheckRange("batch-rows", c.BatchRows, 1, attention.MostRows); err != nil {
		return nil, err
	}
	if err := c.checkPolicies(); err != nil {
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
func (c *ArenaCmd) checkPolicies() error {
	if len(c.Policies) == 0 {
		c.Policies = livePolicies()
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

// apart says whether each expert is a function of its own.
func (c *ArenaCmd) apart(policy string) bool { return c.Device == "paced" || policy != plan.Static }

// pipeline is one in this process: with a control loop unless plans are static.
func (c *ArenaCmd) pipeline(ctx context.Context, e *cli.Env, policy string, set func(*up.Cmd)) (cluster.Settings, error) {
	return up.InProcess(ctx, e, func(up *up.Cmd) {
		up.Hosts, up.KeepAlive, up.Grouping, up.MaxModelLen, up.MaxRows = c.Hosts, c.KeepAlive, "expert", liveContext, c.BatchRows
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
	s.MessageFixed = true
	return s
}

// replay runs a pipeline, and shows how far it is.
func (c *ArenaCmd) replay(ctx context.Context, e *cli.Env, policy string, s replay.Settings) (*replay.Result, error) {
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
