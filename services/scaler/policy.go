package scaler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/feedback"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	cadence = time.Duration(elastic.Cadence * float64(time.Second))
	// share is the most of the time that deciding may take: one in so many.
	share = 4
)

// policy decides by what samples tell. It is a planner.Elastic.
type policy struct {
	settings elastic.Settings
	model    elastic.Model
	samples  Samples
	refusals func(k plan.Known, each func(host, function string))
	computed func() float64 // rows that hosts say that they have computed
	access   func() (divide.Takes, bool)
	applied  func(k plan.Known) map[int]uint64
	presence *deployment.Presence
	metrics  *telemetry.ScalerMetrics
	tracer   *telemetry.Tracer
	log      *slog.Logger
	stopping func() bool // this scaler ends, and does not stand by for another one
	began    time.Time   // of the clock that the core goes by

	mu       sync.Mutex
	core     *elastic.Core
	active   bool
	fresh    bool          // samples have come since the last decision
	due      time.Time     // of the next one
	news     chan struct{} // closed when it is time to decide
	told     map[string]bool
	counts   elastic.Counts
	verdicts []elastic.Verdict
	written  map[int]time.Time // when each layer's plan was written
}

func newPolicy(s elastic.Settings, m elastic.Model, samples Samples, t *telemetry.Telemetry, log *slog.Logger) *policy {
	return &policy{
		settings: s, model: m, samples: samples, metrics: t.Metrics.Scaler, log: log,
		stopping: func() bool { return false }, access: func() (divide.Takes, bool) { return divide.Takes{}, false }, began: time.Now(), news: make(chan struct{}),
	}
}

// Begin implements planner.Elastic: what was known before may be long ago.
func (p *policy) Begin() {
	core, err := elastic.New(p.settings, p.model)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil { // the configuration was checked
		p.log.Error("not scaling", "error", err)
		return
	}
	p.core, p.active, p.fresh, p.due, p.told = core, true, false, time.Time{}, map[string]bool{}
	p.counts, p.verdicts, p.written = core.Counts(), nil, map[int]time.Time{}
	p.log.Info("this scaler plans from now on", "scaling", p.settings.Scaling)
}

// Hear implements planner.Elastic.
func (p *policy) Hear(ctx context.Context) {
	var pacing sync.WaitGroup
	pacing.Go(func() { p.pace(ctx) })
	if err := p.samples.Consume(ctx, p.observe); err != nil {
		p.log.Error("no load samples; the plan follows the hosts only", "error", err)
	}
	pacing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = false
	if !p.stopping() {
		p.log.Info("this scaler stands by")
	}
}

// pace says when it is time to decide anew, until ctx ends.
func (p *policy) pace(ctx context.Context) {
	tick := time.NewTicker(cadence)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.wake(now)
		}
	}
}

func (p *policy) wake(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countSamples()
	if p.core != nil {
		p.core.Computed(p.now(), p.computed())
	}
	if p.fresh && !now.Before(p.due) {
		p.fresh = false
		close(p.news)
		p.news = make(chan struct{})
	}
}

// News implements planner.Elastic.
func (p *policy) News() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news
}

// now is the core's clock.
func (p *policy) now() float64 { return time.Since(p.began).Seconds() }

// observe takes a sample in; what is wrong with one is told once of each kind.
func (p *policy) observe(s *pb.LoadSample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core == nil {
		return
	}
	err := p.core.Observe(p.now(), s)
	var bad *elastic.SampleError
	if errors.As(err, &bad) && !p.told[bad.Kind] {
		p.told[bad.Kind] = true
		p.log.Warn("a load sample counts for nothing; others like it are only counted", "kind", bad.Kind, "error", err)
	}
	p.fresh = p.fresh || err == nil
}

// Plan implements planner.Elastic.
func (p *policy) Plan(k plan.Known) (*plan.Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core == nil {
		return nil, errors.New("not scaling")
	}
	began := time.Now()
	p.learn(k.Model.ExpertBytes)
	p.refusals(k, func(host, function string) { p.core.Refused(p.now(), host, function) })
	p.core.Applied(p.applied(k))
	d, verdicts, err := p.core.Decide(p.now(), k)
	p.tellEnded()
	took := time.Since(began)
	p.due = began.Add(max(cadence, share*took))
	p.metrics.Decision.Observe(took.Seconds())
	if err != nil {
		return nil, err
	}
	p.verdicts = verdicts
	p.trace(began, d, verdicts)
	return d, nil
}

// tellEnded says what has come of changes; p.mu is held.
func (p *policy) tellEnded() {
	for _, o := range p.core.Ended() {
		p.metrics.Trials(o.Verdict.String()).Inc()
		p.presence.Add(trialStat(o.Verdict), 1)
		p.log.Info("a change of a layer's plan "+o.Verdict.String(), "layer", o.Layer,
			"expected_part", o.Expected, "saved_part", o.Came, "error", o.Error, "samples", o.Samples, "left_alone_seconds", max(0, o.Until-p.now()))
	}
}

func trialStat(v feedback.Verdict) string {
	if v == feedback.Helped {
		return members.TrialsHelped
	}
	return members.TrialsUndone
}

// Written implements planner.Elastic.
func (p *policy) Written(layers []*plan.Layer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range layers {
		p.written[int(l.Layer)] = time.Now()
		for _, v := range p.verdicts {
			if v.Layer == int(l.Layer) {
				p.countCauses(v)
			}
		}
		p.log.Debug("layer's plan changed", "layer", l.Layer, "version", l.Version, "reason", l.Reason)
	}
	if len(layers) > 0 {
		p.log.Info("plan changed; `switchyard plan get` shows each layer's reason", "layers", len(layers), "first", layers[0].Layer, "reason", layers[0].Reason)
	}
}
