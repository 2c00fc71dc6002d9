package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/loadtest/replay"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/drain"
	"github.com/switchyard/switchyard/services/switchyard/top"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// offloadLive is the suite fmoe on paced hosts.
type offloadLive struct {
	*OffloadCmd
	serves   arena.OffloadPipeline // of settings alone
	pipeline *arena.OffloadPipeline
	policies []arena.LiveOffload
	report   *arena.OffloadLiveReport
	maps     string // the texts before's; each predictor has a copy; empty: none has any
	model    string // its hash
}

const (
	// offloadHosts are the paper's GPUs.
	offloadHosts = 6
	// mostServed is more texts than a recording has for a report.
	mostServed = 10_000
	// mostMaps is more than there are rows to make maps of.
	mostMaps = 1 << 20
	// heldBack is how late a late predictor hears of steps, and one that hears of nothing.
	heldBack, forEver = time.Second, 24 * time.Hour
)

// live runs policies on the pipeline, in turns, and the simulator beside them.
func (c *OffloadCmd) live(ctx context.Context, e *cli.Env) (err error) {
	s, err := c.prepare()
	if err := c.beforeWork(e, err); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "switchyard-maps-")
	if err != nil {
		return fmt.Errorf("making a folder for expert maps: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.maps, err = s.writeMaps(dir); err != nil {
		return err
	}
	if err := s.turns(ctx, e); err != nil {
		return err
	}
	return s.conclude(e, "live.json")
}

// turns runs all policies with all budgets, again and again.
func (s *offloadLive) turns(ctx context.Context, e *cli.Env) error {
	for repeat := range s.Repeats {
		for _, gb := range s.report.Budgets {
			for _, policy := range arena.InTurns(s.policies, repeat) {
				if policy.Order == "none" && gb != s.report.Budgets[0] {
					continue // it is the same with each budget
				}
				if err := s.turn(ctx, e, policy, gb, repeat+1); err != nil {
					return fmt.Errorf("policy %s: %w", policy.Name, err)
				}
			}
		}
	}
	return nil
}

// conclude shows what came of it, and writes it to a file of --out.
func (s *offloadLive) conclude(e *cli.Env, file string) error {
	if err := s.report.Conclude(s.pipeline, s.policies); err != nil {
		return err
	}
	if err := errors.Join(showAll(e, s.JSON, s.report.Changes), showAll(e, s.JSON, s.report.Fidelity)); err != nil {
		return err
	}
	return writeJSON(s.Out, file, s.report)
}

func (c *OffloadCmd) prepare() (*offloadLive, error) {
	if c.Recording == "" {
		return nil, errors.New("--recording is missing; name a recording of the demo model (switchyard record) whose texts are served")
	}
	if err := errors.Join(up.CheckRange("repeats", c.Repeats, 1, arena.MostSeeds), up.CheckRange("served", c.Served, 1, mostServed), up.CheckRange("maps", c.Maps, 1, mostMaps)); err != nil {
		return nil, err
	}
	s := &offloadLive{OffloadCmd: c}
	if err := s.choosePolicies(); err != nil {
		return nil, err
	}
	profile, err := profiles.Open(c.Profile)
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	all, err := budgets(c.Budget)
	if err != nil {
		return nil, err
	}
	s.report = &arena.OffloadLiveReport{Model: model.DemoName, Profile: profile.Name, Hosts: offloadHosts, Budgets: all}
	s.serves = arena.OffloadPipeline{Seed: s.Seed, Distance: s.Prefetch, Capacity: s.Maps, Profile: profile, Hosts: offloadHosts}
	if len(c.Online) > 0 {
		return s, nil
	}
	texts := offload.DefaultTexts()
	texts.Served = c.Served
	if err := s.open(texts); err != nil {
		return nil, err
	}
	s.report.Requests = len(s.pipeline.Served)
	return s, nil
}

// choosePolicies finds those of --policies.
func (s *offloadLive) choosePolicies() error {
	if len(s.Policies) == 0 {
		s.Policies = []string{offload.Held, offload.OnDemand, offload.FMoE, "next-use"}
		if len(s.Online) > 0 {
			s.Policies = []string{offload.Held, offload.OnDemand, offload.FMoE, offload.Ours}
		}
	}
	for _, name := range s.Policies {
		p, err := arena.FindLiveOffload(name)
		if err != nil {
			return fmt.Errorf("--policies: %w", err)
		}
		s.policies = append(s.policies, p)
	}
	return nil
}

// open reads the recording.
func (s *offloadLive) open(texts offload.Texts) (err error) {
	m, err := model.Demo()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r, err := arena.Record(s.Recording, m)
	if err != nil {
		return err
	}
	s.model = m.Hash
	s.pipeline, err = arena.NewOffloadPipeline(r, texts, s.serves)
	return err
}

// writeMaps writes the maps that predictors begin with.
func (s *offloadLive) writeMaps(dir string) (string, error) {
	store, err := s.pipeline.Maps(s.model, schemas.DefaultTenant)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "before.maps")
	return path, mapfile.Write(path, store)
}

// turn is one run, which is shown.
func (s *offloadLive) turn(ctx context.Context, e *cli.Env, policy arena.LiveOffload, gb float64, repeat int) error {
	r, err := s.run(ctx, e, policy, gb)
	if err != nil {
		return err
	}
	r.Policy, r.Budget, r.Repeat = policy.Name, gb, repeat
	if policy.Order == "none" {
		r.Budget = 0 // any
	}
	s.report.Runs = append(s.report.Runs, *r)
	return cli.Show(e, s.JSON, r, r.String())
}

func (s *offloadLive) run(ctx context.Context, e *cli.Env, policy arena.LiveOffload, gb float64) (*arena.OffloadRun, error) {
	maps, err := s.ownMaps(policy)
	if err != nil {
		return nil, err
	}
	set, err := s.cluster(ctx, e, policy, gb, maps)
	if err != nil {
		return nil, err
	}
	settings := replay.Settings{Cluster: set, Requests: s.pipeline.Requests(), InTurn: true}
	if policy.Maps == arena.Killed {
		settings.Disturb = leavePredictors
	}
	result, err := replayed(ctx, e, policy.Name, settings)
	if err != nil {
		return nil, err
	}
	if err := s.pipeline.Answered(result.Answers); err != nil {
		return nil, err
	}
	figures, err := gathered(set.Node.Shared.Telemetry.Registry)
	if err != nil {
		return nil, err
	}
	run := offloadRun(result, figures)
	if s.report.Trace != "" {
		run.Of(result.Answers)
	}
	_, loads := figures.observed("expert_load_seconds", "outcome", "warm")
	run.Moved = float64(loads) * s.pipeline.Model.ExpertBytes / 1e9
	return run, nil
}

// ownMaps is a copy of the maps for one run's predictor, which writes it; empty without one.
func (s *offloadLive) ownMaps(policy arena.LiveOffload) (string, error) {
	if policy.Maps == "" || s.maps == "" {
		return "", nil
	}
	store, err := mapfile.Read(s.maps)
	if err != nil {
		return "", err
	}
	own := s.maps + ".run"
	return own, mapfile.Write(own, store)
}

// cluster is the pipeline under a policy.
func (s *offloadLive) cluster(ctx context.Context, e *cli.Env, policy arena.LiveOffload, gb float64, maps string) (cluster.Settings, error) {
	set, err := up.InProcess(ctx, e, func(up *up.Cmd) {
		up.Hosts, up.MaxModelLen, up.Microbatches, up.Device, up.Profile = offloadHosts, liveContext, 1, "paced", s.Profile
		up.Speculate, up.PrefixCache = 0, false // the simulator's steps have each row of a text once
		if s.report.Trace != "" {
			up.MaxModelLen, up.MaxRows = onlineContext, onlineContext // a prompt is one step
		}
		up.Offload = policy.Order
		if policy.Order != "none" {
			up.ExpertMemory = fmt.Sprint(int64(s.pipeline.Model.Budget(gb*1e9) / offloadHosts))
		}
		if policy.Scaling != "" {
			up.Scaling, up.Grouping = policy.Scaling, "expert"
		}
		if policy.Replicas > 0 {
			up.Replication = policy.Replicas
		}
		if policy.Maps != "" {
			up.Maps, up.MapsFile, up.Distance = fmt.Sprint(s.Maps), maps, cmp.Or(policy.Distance, s.Prefetch)
		}
		if policy.Prefill != "" {
			up.Prefill = policy.Prefill
		}
	})
	if err != nil {
		return set, err
	}
	set.Services.Attention.LongSteps = true // a prompt is one step, as the simulator's, the first one too
	if policy.Maps == "" {                  // up has one where hosts follow hints
		set.Count["predictor"] = 0
		if policy.Scaling != "" {
			set.Count["predictor"] = 1
		}
		set.Services.Predictor.Maps.Capacity = 0
	}
	switch policy.Maps {
	case arena.Late:
		set.Services.Predictor.Late = heldBack
	case arena.Stopped:
		set.Services.Predictor.Late = forEver
	case arena.Untroubled, arena.Killed:
	}
	return set, nil
}

// leavePredictors has all predictors leave.
func leavePredictors(ctx context.Context, y *cluster.Cluster) {
	conn, err := y.Connect(ctx)
	if err != nil {
		return // the run has ended
	}
	defer conn.Close()
	names := y.Settings.Node.Names()
	r := top.NewReader(conn.NATS(), conn.JetStream(), names)
	defer r.Close()
	all, err := r.Live(ctx)
	if err != nil {
		return
	}
	for _, m := range all.Members {
		if m.Service == "predictor" {
			_, _ = drain.Run(ctx, drain.Settings{Conn: conn, Names: names, Name: m.ID, Within: heldBack, Tell: func(drain.Result) {}}) // a run that ends before is told by its figures
		}
	}
}
