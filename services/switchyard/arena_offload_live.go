package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/lab/arena"
	"github.com/switchyard/switchyard/pkg/lab/replay"
	"github.com/switchyard/switchyard/pkg/sim/offload"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/drain"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// offloadLive is the suite fmoe on paced hosts.
type offloadLive struct {
	*ArenaCmd
	pipeline *arena.OffloadPipeline
	policies []arena.LiveOffload
	report   *arena.OffloadLiveReport
	maps     string // the texts before's; each predictor has a copy
	model    string // its hash
}

const (
	// offloadHosts are the paper's GPUs.
	offloadHosts = 6
	// offloadProfile is of a device that holds experts like those that budgets are of.
	offloadProfile = "rtx3090-phi-3.5-moe"
	// heldBack is how late a late predictor hears of steps, and one that hears of nothing.
	heldBack, forEver = time.Second, 24 * time.Hour
)

// offloadLive runs policies on the pipeline, in turns, and the simulator beside them.
func (c *ArenaCmd) offloadLive(ctx context.Context, e *env) (err error) {
	s, err := c.prepareOffloadLive()
	if err := c.beforeWork(err); err != nil {
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
	for repeat := range c.Repeats {
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
	return s.conclude(e)
}

func (s *offloadLive) conclude(e *env) error {
	if err := s.report.Conclude(s.pipeline, s.policies); err != nil {
		return err
	}
	for _, y := range s.report.Changes {
		if err := show(e, s.JSON, y, y.String()); err != nil {
			return err
		}
	}
	for _, f := range s.report.Fidelity {
		if err := show(e, s.JSON, f, f.String()); err != nil {
			return err
		}
	}
	return writeJSON(s.Out, "live.json", s.report)
}

func (c *ArenaCmd) prepareOffloadLive() (*offloadLive, error) {
	if c.Recording == "" {
		return nil, errors.New("--recording is missing; name a recording of the demo model (switchyard record) whose texts are served")
	}
	if err := errors.Join(checkRange("repeats", c.Repeats, 1, arena.MostSeeds), c.checkOffloadFlags()); err != nil {
		return nil, err
	}
	s := &offloadLive{ArenaCmd: c}
	if len(c.Policies) == 0 {
		c.Policies = []string{offload.Held, offload.OnDemand, offload.FMoE, "next-use"}
	}
	for _, name := range c.Policies {
		p, err := arena.FindLiveOffload(name)
		if err != nil {
			return nil, fmt.Errorf("--policies: %w", err)
		}
		s.policies = append(s.policies, p)
	}
	if c.Profile == defaultProfile {
		c.Profile = offloadProfile
	}
	profile, err := profiles.Open(c.Profile)
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	all, err := budgets(c.Budget)
	if err != nil {
		return nil, err
	}
	texts := offload.DefaultTexts()
	texts.Served = c.Served
	if err := s.open(texts, profile); err != nil {
		return nil, err
	}
	s.report = &arena.OffloadLiveReport{Model: model.DemoName, Profile: profile.Name, Hosts: offloadHosts, Requests: len(s.pipeline.Served), Budgets: all}
	return s, nil
}

// open reads the recording.
func (s *offloadLive) open(texts offload.Texts, profile *profiles.Profile) (err error) {
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
	s.pipeline, err = arena.NewOffloadPipeline(r, texts, arena.OffloadPipeline{Seed: s.Seed, Distance: s.Prefetch, Capacity: s.Maps, Profile: profile, Hosts: offloadHosts})
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
func (s *offloadLive) turn(ctx context.Context, e *env, policy arena.LiveOffload, gb float64, repeat int) error {
	r, err := s.run(ctx, e, policy, gb)
	if err != nil {
		return err
	}
	r.Policy, r.Budget, r.Repeat = policy.Name, gb, repeat
	if policy.Order == "none" {
		r.Budget = 0 // any
	}
	s.report.Runs = append(s.report.Runs, *r)
	return show(e, s.JSON, r, r.String())
}

func (s *offloadLive) run(ctx context.Context, e *env, policy arena.LiveOffload, gb float64) (*arena.OffloadRun, error) {
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
	result, err := s.replay(ctx, e, policy.Name, settings)
	if err != nil {
		return nil, err
	}
	if err := s.pipeline.Check(result.Answers); err != nil {
		return nil, err
	}
	figures, err := gathered(set.Node.Shared.Telemetry.Registry)
	if err != nil {
		return nil, err
	}
	run := offloadRun(result, figures)
	_, loads := figures.observed("expert_load_seconds", "outcome", "warm")
	run.Moved = float64(loads) * s.pipeline.Model.ExpertBytes / 1e9
	return run, nil
}

// ownMaps is a copy of the maps for one run's predictor, which writes it; empty without one.
func (s *offloadLive) ownMaps(policy arena.LiveOffload) (string, error) {
	if policy.Maps == "" {
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
func (s *offloadLive) cluster(ctx context.Context, e *env, policy arena.LiveOffload, gb float64, maps string) (cluster.Settings, error) {
	set, err := inProcess(ctx, e, func(up *UpCmd) {
		up.Hosts, up.MaxModelLen, up.Microbatches, up.Device, up.Profile = offloadHosts, liveContext, 1, "paced", s.Profile
		up.Speculate, up.PrefixCache = 0, false // the simulator's steps have each row of a text once
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
	if policy.Maps == "" { // up has one where hosts follow hints
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

// offloadRun reads a run's figures.
func offloadRun(r *replay.Result, all figures) *arena.OffloadRun {
	l := r.Latencies()
	of := func(name string, labels ...string) float64 { return all.sum("switchyard_"+name, labels...) }
	hits := func(phase string, states ...string) (sum float64) {
		for _, state := range states {
			sum += of("expert_accesses_total", "phase", phase, "state", state)
		}
		return sum / max(1, of("expert_accesses_total", "phase", phase))
	}
	o := &arena.OffloadRun{
		TTFT: l.TTFT.Mean, TPOT: l.TPOT.Mean, Hits: hits("decode", "hit"), Late: hits("decode", "late"), Prefill: hits("prefill", "hit"),
		Stall: of("expert_stall_seconds_total"), Hints: of("hints_sent_total"), Search: of("map_search_seconds"), LateShare: r.LateShare,
		Reissued: of("reissues_total"), Stages: offloadStages(r),
		Used:    of("prefetched_bytes_total", "outcome", "used") / 1e9,
		Overdue: of("prefetched_bytes_total", "outcome", "late") / 1e9,
		Wasted:  of("prefetched_bytes_total", "outcome", "wasted") / 1e9,
	}
	o.Semantic, o.Trajectory = all.mean("map_search_seconds", "kind", "semantic"), all.mean("map_search_seconds", "kind", "trajectory")
	o.Load = all.mean("expert_load_seconds", "outcome", "warm")
	if len(r.Steps) > 0 {
		o.Wait = o.Stages["decode"][ledger.ExpertStall.String()] * float64(len(r.Steps[0].Layers))
	}
	if n := len(r.Frames); n > 0 {
		o.Held = r.Frames[n-1].Held - r.Frames[0].Held
	}
	return o
}

// figures are a process's counters, and of histograms the sums of what was observed.
type figures []counted

type counted struct {
	name    string
	labels  map[string]string
	value   float64
	samples uint64 // of a histogram
}

func gathered(from *prometheus.Registry) (all figures, err error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			h := m.GetHistogram()
			one := counted{f.GetName(), map[string]string{}, m.GetCounter().GetValue() + h.GetSampleSum(), h.GetSampleCount()}
			for _, l := range m.GetLabel() {
				one.labels[l.GetName()] = l.GetValue()
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// mean is that of what a histogram has observed where a label has a value; 0 without any.
func (f figures) mean(name, label, value string) float64 {
	sum, samples := f.observed(name, label, value)
	return sum / float64(max(1, samples))
}

// observed is what a histogram has observed where a label has a value, all together, and how often.
func (f figures) observed(name, label, value string) (sum float64, samples uint64) {
	for _, one := range f {
		if one.name == "switchyard_"+name && one.labels[label] == value {
			sum, samples = sum+one.value, samples+one.samples
		}
	}
	return sum, samples
}

// sum is that of a metric over what has these labels, given by name and value in turns.
func (f figures) sum(name string, labels ...string) (sum float64) {
	for _, one := range f {
		has := one.name == name
		for i := 0; i+1 < len(labels); i += 2 {
			has = has && one.labels[labels[i]] == labels[i+1]
		}
		if has {
			sum += one.value
		}
	}
	return sum
}

// offloadStages are a mean layer's, of steps with several rows, which are prompts', and with one; own is
// what attention computes before it.
func offloadStages(r *replay.Result) map[string]map[string]float64 {
	all, layers := map[string]map[string]float64{"prefill": {}, "decode": {}}, map[string]float64{}
	for i := range r.Steps {
		phase := "decode"
		if r.Steps[i].Rows > 1 {
			phase = "prefill"
		}
		own := r.Steps[i].Took - r.Steps[i].Behind
		for _, l := range r.Steps[i].Layers {
			own -= l.Total
			layers[phase]++
			for stage, took := range l.By {
				all[phase][ledger.Stage(stage).String()] += took.Seconds() * 1e3
			}
			all[phase]["total"] += l.Total.Seconds() * 1e3
		}
		all[phase]["own"] += own.Seconds() * 1e3
	}
	for phase, of := range all {
		for stage := range of {
			of[stage] /= layers[phase]
		}
	}
	return all
}
