// Package replay sends requests through a pipeline of this process, each at its
// time, and keeps what became of them: their tokens, the time of every layer of
// every step with the rows that its experts had, and, over time, the plan and
// what hosts hold.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Settings say what is run.
type Settings struct {
	// Cluster is the pipeline; its services tell what they do to whoever asked for that.
	Cluster  cluster.Settings
	Requests []Request
	// Hosts are those that a plan has before requests come; 0: all.
	Hosts int
	// InTurn sends each request when the one before it is answered, if that is later than its time.
	InTurn bool
	// Script, if set, are the steps that are made, those of another run of the same requests;
	// Paced says that none begins sooner than in that run. One that cannot be made ends the
	// run with a *ScriptError.
	Script []Scripted
	Paced  bool
	// Settle is how long the pipeline has, once it is ready, before the first request.
	Settle time.Duration
	// Every is how often plan and hosts are looked at.
	Every time.Duration
	// Views is how often what `switchyard top` shows is kept; 0 is never.
	Views time.Duration
	// Disturb, if set, is called when the first request is due, and acts on the
	// pipeline meanwhile; ctx ends with the last request.
	Disturb func(ctx context.Context, y *cluster.Cluster)
	// Progress hears what is going on.
	Progress func(format string, args ...any)

	player *player // of Script
}

// Result is what was kept.
type Result struct {
	// Began is when requests' times count from, and Took how long all of them took.
	Began time.Time
	Took  time.Duration
	// Answers are those of the requests, in their order.
	Answers []Answer
	// Steps are those of which all rows are known, in the order of their numbers;
	// Partial counts the others.
	Steps   []Step
	Partial int
	Shape   routing.Shape
	Frames  []Frame
	Changes []Change
	// Plans are those of layers that were seen, by the versions that steps name.
	Plans map[Planned]*plan.Layer
	Views []View
	// Cold counts functions that rows found cold, as hosts tell.
	Cold uint64
	// LateShare is how many of the paced results this machine had too late.
	LateShare float64
	// Stood are the seconds that loads of paced hosts stood still for more urgent ones.
	Stood float64

	script     []Scripted
	layerIndex map[int]int // index among the layers with experts
}

// Run opens a pipeline, sends all requests, and closes it.
func Run(ctx context.Context, s Settings) (r *Result, err error) {
	steps := newRecorder(s.Cluster.Node.Shared.Model)
	s.Cluster.Node.Shared.Steps, s.Cluster.Node.Shared.Loads = steps.step, steps
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if s.Script != nil {
		s.play(fail)
	}
	s.Progress("starting the pipeline…")
	y, err := cluster.Open(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if err := y.Ready(ctx); err != nil {
		return nil, err
	}
	w, err := watch(ctx, y, steps)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.awaitHosts(ctx, cmp.Or(s.Hosts, s.Cluster.Count["expert"])); err != nil {
		return nil, err
	}
	if err := pause.For(ctx, s.Settle); err != nil {
		return nil, err
	}
	return s.send(ctx, y, w, steps)
}

// play has attention make the steps of the script.
func (s *Settings) play(fail func(error)) {
	s.player = &player{
		policy: batching.Policy{Microbatches: 1, MinRows: 1, MaxRows: max(1, s.Cluster.Services.Attention.MaxRows)}, fail: fail,
		script: Script{Steps: s.Script, Paced: s.Paced, Patience: missing},
	}
	s.Cluster.Node.Shared.Batches = s.player.choose
}

// send has the requests answered while the watcher looks on.
func (s *Settings) send(ctx context.Context, y *cluster.Cluster, w *watcher, steps *recorder) (*Result, error) {
	c, stop, err := y.Client(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	r := &Result{Began: time.Now()}
	steps.begin(r.Began)
	w.begin(r.Began)
	background, end := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { w.run(background, s.Every) })
	if s.Views > 0 {
		tasks.Go(func() { w.film(background, s.Views) })
	}
	if s.player != nil {
		s.player.begin(r.Began)
	}
	if s.Disturb != nil {
		tasks.Go(func() { s.Disturb(background, y) })
	}
	r.Answers, err = s.ask(ctx, c, r.Began)
	r.Took = time.Since(r.Began)
	end()
	tasks.Wait()
	if err != nil {
		return nil, err
	}
	r.Steps, r.Partial, r.script = steps.result()
	r.Shape = routing.Shape{Layers: len(steps.layers), Experts: steps.experts, TopK: steps.topK}
	r.Frames, r.Changes, r.Plans, r.Views, r.Cold = w.frames, w.seen(), w.seenPlans(), w.views, steps.coldStarts()
	r.LateShare, r.Stood = w.paced()
	r.layerIndex = steps.layers
	return r, nil
}

// Failed is what went wrong with requests, nil if nothing did.
func (r *Result) Failed() error {
	for i, a := range r.Answers {
		if a.Err != nil {
			return fmt.Errorf("request %d of %d: %w", i+1, len(r.Answers), a.Err)
		}
	}
	return nil
}
