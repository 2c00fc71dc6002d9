package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/conductor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// RescaleHosts is how many hosts there are for replicas.
const RescaleHosts = 3

// Rescaling is what changing plans does to open streams. Half of the time there is
// a new plan, for Window; the other half the same plans are steady.
type Rescaling struct {
	Model string `json:"model"`
	Names
	Batch    int      `json:"batch"`
	Changes  int      `json:"plan_changes"`
	Window   float64  `json:"window_seconds"`
	Steady   Gaps     `json:"steady"`
	Moving   Gaps     `json:"rescaling"`
	P99Ratio float64  `json:"p99_ratio"`
	InUse    float64  `json:"plan_in_use_p99_seconds"`
	Loads    float64  `json:"loads"`
	Cold     float64  `json:"cold_starts"`
	Reissues float64  `json:"reissues"`
	Answers  int64    `json:"answers"`
	Changed  int64    `json:"changed_answers"`
	Plans    []string `json:"plans"`
}

// Gaps are times between tokens of a stream.
type Gaps struct {
	Tokens int     `json:"tokens"`
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
	Max    float64 `json:"max_seconds"`
}

// rescale is a measurement under way.
type rescale struct {
	*pipelineSide
	plans  *conductor.Conductor
	hosts  []string
	tokens int // of each answer

	moving           atomic.Bool
	answers, changed atomic.Int64
	mu               sync.Mutex
	gaps             map[bool][]float64 // by whether the plan was new
	first            map[int][]uint32   // by prompt
}

// Rescale measures the gaps between the tokens of a batch of streams while the
// plan goes through all that plans want of experts, rounds times.
func Rescale(ctx context.Context, y *cluster.Cluster, batch, rounds int, window time.Duration, progress func(string, ...any)) (r *Rescaling, err error) {
	s := &rescale{
		pipelineSide: &pipelineSide{name: y.Settings.Node.ModelName(), cluster: y, stop: func() {}, vocab: y.Settings.Node.Shared.Model.Spec.Vocab},
		gaps:         map[bool][]float64{}, first: map[int][]uint32{}, tokens: min(Context, y.Settings.Node.Shared.Model.Spec.MaxPositions) - PromptLength,
	}
	defer func() { s.stop() }()
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	if s.plans, err = conductor.Begin(ctx, y.Settings.Node); err != nil {
		return nil, err
	}
	defer s.plans.Close()
	if s.hosts, err = s.plans.AwaitHosts(ctx, RescaleHosts); err != nil {
		return nil, err
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, batch)
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() { errs[i] = s.ask(asking, i) })
	}
	r, err = s.measure(ctx, rounds, window, progress)
	stop()
	all.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	r.Batch, r.Answers, r.Changed = batch, s.answers.Load(), s.changed.Load()
	return r, nil
}

// measure goes through the plans.
func (s *rescale) measure(ctx context.Context, rounds int, window time.Duration, progress func(string, ...any)) (*Rescaling, error) {
	r := s.result(window)
	if _, err := s.change(ctx, steps[0]); err != nil {
		return nil, err
	}
	if err := pause.For(ctx, 2*window); err != nil {
		return nil, err
	}
	s.forget()
	before, err := s.read()
	if err != nil {
		return nil, err
	}
	var inUse []float64
	for round := range rounds {
		for _, step := range append(slices.Clone(steps[1:]), steps[0]) {
			progress("round %d of %d: %s…", round+1, rounds, step.name)
			took, err := s.change(ctx, step)
			if err == nil {
				err = pause.For(ctx, window-took)
			}
			s.moving.Store(false)
			if err == nil {
				err = pause.For(ctx, max(window, took))
			}
			if err != nil {
				return nil, err
			}
			inUse = append(inUse, took.Seconds())
			r.Changes++
		}
	}
	after, err := s.read()
	if err != nil {
		return nil, err
	}
	s.report(r, after.since(before), inUse)
	return r, nil
}

func (s *rescale) result(window time.Duration) *Rescaling {
	return &Rescaling{Model: s.name, Names: s.devices(), Window: window.Seconds()}
}

func (s *rescale) report(r *Rescaling, gained readings, inUse []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range steps {
		r.Plans = append(r.Plans, step.name)
	}
	r.Steady, r.Moving = gapsOf(s.gaps[false]), gapsOf(s.gaps[true])
	r.P99Ratio = r.Moving.P99 / r.Steady.P99
	slices.Sort(inUse)
	r.InUse = quantile.Of(inUse, 0.99)
	r.Loads, r.Cold, r.Reissues = gained["switchyard_expert_load_seconds_count{outcome=warm}"], gained["switchyard_cold_starts_total"], gained["switchyard_reissues_total"]
}

// step is a plan, by expert.
type step struct {
	name   string
	expert func(expert int) (replicas int, want pb.Want)
}

const (
	warm = pb.Want_WANT_WARM
	kept = pb.Want_WANT_KEPT
	cold = pb.Want_WANT_COLD
)

// hot and idle are experts that get more, and that may go to zero.
func hot(expert int) bool  { return expert%4 == 0 }
func idle(expert int) bool { return expert%4 == 3 }

// steps are the plans, of which each follows the one before; the first follows the last.
var steps = []step{
	{"one replica each", func(int) (int, pb.Want) { return 1, warm }},
	{"pre-warmed: hot ones kept elsewhere", func(e int) (int, pb.Want) { return want(hot(e), 3, kept) }},
	{"hot ones with three replicas", func(e int) (int, pb.Want) { return want(hot(e), 3, warm) }},
	{"hot ones with two, idle ones to zero", func(e int) (int, pb.Want) {
		if idle(e) {
			return 1, cold
		}
		return want(hot(e), 2, warm)
	}},
	{"all with two replicas", func(int) (int, pb.Want) { return 2, warm }},
	{"idle ones to zero", func(e int) (int, pb.Want) { return want(idle(e), 1, cold) }},
}

// want is for those that are meant; the others have one warm replica.
func want(meant bool, replicas int, w pb.Want) (int, pb.Want) {
	if meant {
		return replicas, w
	}
	return 1, warm
}

// change writes a step's plan, and says after how long all gates use it.
func (s *rescale) change(ctx context.Context, to step) (took time.Duration, err error) {
	var layers []*pb.LayerPlan
	for _, l := range s.plans.MoELayers() {
		lp := &pb.LayerPlan{Layer: uint32(l), Reason: to.name}
		for e := range s.plans.Model.Spec.Experts {
			lp.Functions = append(lp.Functions, s.function(l, e, to))
		}
		layers = append(layers, lp)
	}
	s.moving.Store(true)
	began := time.Now()
	if err := s.plans.Write(ctx, layers...); err != nil {
		return 0, err
	}
	err = s.plans.AwaitInUse(ctx)
	return time.Since(began), err
}

func (s *rescale) function(layer, expert int, to step) *pb.Function {
	f := plan.Function(layer, []uint32{uint32(expert)})
	replicas, w := to.expert(expert)
	for i := range min(replicas, len(s.hosts)) {
		p := &pb.Placement{Host: s.hosts[(expert+i)%len(s.hosts)], Want: w}
		if i == 0 && w == kept {
			p.Want = warm
		}
		f.Placements = append(f.Placements, p)
	}
	return f
}

// ask has one stream after the other until ctx ends.
func (s *rescale) ask(ctx context.Context, i int) error {
	for ctx.Err() == nil {
		if err := s.answer(ctx, i); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (s *rescale) answer(ctx context.Context, i int) error {
	stream, err := s.client.Prompt(ctx, greedyPrompt(promptIDs(i, PromptLength, s.vocab), s.tokens))
	if err != nil {
		return err
	}
	defer stream.Close()
	var last time.Time
	var ids []uint32
	for chunk, err := range stream.Chunks() {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
		if now := time.Now(); len(chunk.TokenIds) > 0 {
			s.gap(last, now, len(chunk.TokenIds))
			last = now
		}
		ids = append(ids, chunk.TokenIds...)
	}
	s.compare(i, ids)
	return nil
}

// gap notes the time to a chunk of so many tokens, which share it.
func (s *rescale) gap(last, now time.Time, tokens int) {
	if last.IsZero() {
		return
	}
	moving := s.moving.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for range tokens {
		s.gaps[moving] = append(s.gaps[moving], now.Sub(last).Seconds()/float64(tokens))
	}
}

// compare wants the answer that the prompt had the first time.
func (s *rescale) compare(i int, ids []uint32) {
	s.answers.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first[i] == nil {
		s.first[i] = ids
	} else if !slices.Equal(s.first[i], ids) {
		s.changed.Add(1)
	}
}

func (s *rescale) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moving.Store(false)
	s.gaps = map[bool][]float64{}
}

func gapsOf(x []float64) Gaps {
	slices.Sort(x)
	return Gaps{Tokens: len(x), P50: quantile.Of(x, 0.5), P99: quantile.Of(x, 0.99), Max: quantile.Of(x, 1)}
}

// String is the result for people.
func (r *Rescaling) String() string {
	ms := func(g Gaps) string {
		return fmt.Sprintf("p50 %.1f, p99 %.1f, at most %.1f ms of %d tokens", g.P50*1e3, g.P99*1e3, g.Max*1e3, g.Tokens)
	}
	return fmt.Sprintf("%s  batch %d  %s, %d hosts, %d changes of the plan: time between tokens steady %s; in the %.1f s after a change %s; p99 %.2f times\n"+
		"    a plan is in use after %.0f ms (p99); %.0f loads of experts, %.0f cold starts, %.0f re-issues; %d answers, %d changed\n",
		r.Model, r.Batch, r.Names, RescaleHosts, r.Changes, ms(r.Steady), r.Window, ms(r.Moving), r.P99Ratio, r.InUse*1e3, r.Loads, r.Cold, r.Reissues, r.Answers, r.Changed)
}
