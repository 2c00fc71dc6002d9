package scaler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/feedback"
	"github.com/switchyard/switchyard/pkg/policy/plan"
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
	// computed is how many rows hosts say that they have computed; false: none says so.
	computed func() (rows float64, said bool)
	// here are the attention replicas and gates that are here; false: nobody knows yet.
	here     func() (attention, gates map[string]bool, known bool)
	access   func() (divide.Takes, bool)
	applied  func(k plan.Known) map[int]uint64
	presence *deployment.Presence
	metrics  *telemetry.ScalerMetrics
	tracer   *telemetry.Tracer
	log      *slog.Logger
	stopping func() bool // this scaler ends, and does not stand by for another one
	began    time.Time   // of the clock that the core goes by

	mu       sync.Mutex // is never held for as long as a decision takes
	core     *elastic.Core
	active   bool
	fresh    bool          // samples have come since the last decision
	due      time.Time     // of the next one
	news     chan struct{} // closed when it is time to decide
	told     map[string]bool
	doubted  map[string]bool // gates that were named
	counts   elastic.Counts
	verdicts []elastic.Verdict
	written  map[int]time.Time // when each layer's plan was written
	hosts    func() []*pb.Member
	work     work
}

func newPolicy(s elastic.Settings, m elastic.Model, samples Samples, t *telemetry.Telemetry, log *slog.Logger) *policy {
	return &policy{
		settings: s, model: m, samples: samples, metrics: t.Metrics.Scaler, log: log,
		stopping: func() bool { return false }, access: func() (divide.Takes, bool) { return divide.Takes{}, false }, began: time.Now(), news: make(chan struct{}),
		hosts: func() []*pb.Member { return nil },
		here:  func() (_, _ map[string]bool, known bool) { return nil, nil, false },
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
	p.doubted, p.work = map[string]bool{}, work{}
	p.counts, p.verdicts, p.written = core.Counts(), nil, map[int]time.Time{}
	p.log.Info("this scaler plans from now on", "scaling", p.settings.Scaling)
}

// Hear implements planner.Elastic.
func (p *policy) Hear(ctx context.Context) { p.hear(ctx, p.observe) }

// hear hands samples on, and paces decisions, until ctx ends.
func (p *policy) hear(ctx context.Context, observe func(*pb.LoadSample)) {
	var pacing sync.WaitGroup
	pacing.Go(func() { p.pace(ctx) })
	if err := p.samples.Consume(ctx, observe); err != nil {
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
		p.hearMembers()
	}
	if p.fresh && !now.Before(p.due) {
		p.fresh = false
		close(p.news)
		p.news = make(chan struct{})
	}
}

func (p *policy) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = true
}

// hearMembers tells the core who is here, and what hosts have computed. p.mu is held.
func (p *policy) hearMembers() {
	if attention, gates, known := p.here(); known {
		p.core.Here(p.now(), attention, gates)
	}
	if rows, said := p.computed(); said {
		p.core.Computed(p.now(), rows)
	}
	p.work.look(p.now(), p.hosts())
	p.tellDoubts()
}

func (p *policy) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hearMembers()
}

// doubtsTold bounds the gates that are named.
const doubtsTold = 16

// tellDoubts names gates that tell of rows that no hosts have computed: each once in the log,
// and for operators with how often it did. p.mu is held.
func (p *policy) tellDoubts() {
	for _, d := range p.core.Doubts() {
		if !p.doubted[d.Gate] && len(p.doubted) < doubtsTold {
			p.doubted[d.Gate] = true
			p.log.Warn("a gate tells of rows that no hosts have computed; its samples of that kind count for nothing, and are only counted from now on", "gate", d.Gate, "layer", d.Layer, "rows", d.Rows, "error", d)
		}
		if p.doubted[d.Gate] {
			p.presence.Add(members.Doubted+d.Gate, 1)
		}
	}
}

// News implements planner.Elastic.
func (p *policy) News() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news
}

func (p *policy) now() float64 { return time.Since(p.began).Seconds() }

// planning returns what decides; nil before this scaler plans first.
func (p *policy) planning() *elastic.Core {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core
}

// observe takes a sample in; what is wrong with one is told once of each kind.
func (p *policy) observe(s *pb.LoadSample) {
	core := p.planning()
	if core == nil {
		return
	}
	err := core.Observe(p.now(), s)
	p.mu.Lock()
	defer p.mu.Unlock()
	var bad *elastic.SampleError
	if errors.As(err, &bad) && !p.told[bad.Kind] {
		p.told[bad.Kind] = true
		p.log.Warn("a load sample counts for nothing; others like it are only counted", "kind", bad.Kind, "error", err)
	}
	p.fresh = p.fresh || err == nil
}

// Plan implements planner.Elastic. Samples come in while it decides.
func (p *policy) Plan(k plan.Known) (*plan.Decision, error) {
	core := p.planning()
	if core == nil {
		return nil, errors.New("not scaling")
	}
	began := time.Now()
	if t, said := p.access(); said {
		core.Takes(t.Device(float64(cmp.Or(k.Model.ExpertBytes, 1))))
	}
	p.holds(k)
	p.refusals(k, func(host, function string) { core.Refused(p.now(), host, function) })
	core.Applied(p.applied(k))
	p.look()
	d, verdicts, err := core.Decide(p.now(), k)
	p.tellEnded(core)
	took := time.Since(began)
	p.metrics.Decision.Observe(took.Seconds())
	p.decided(began.Add(max(cadence, share*took)), verdicts, err)
	if err != nil {
		return nil, err
	}
	p.trace(began, d, verdicts)
	return d, nil
}

func (p *policy) holds(k plan.Known) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work.holds(k)
}

// decided notes what was decided, and when it is to be decided again.
func (p *policy) decided(due time.Time, verdicts []elastic.Verdict, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due = due; err == nil {
		p.verdicts = verdicts
	}
}

// tellEnded says what has come of changes.
func (p *policy) tellEnded(core *elastic.Core) {
	for _, o := range core.Ended() {
		p.metrics.Trials(o.Verdict.String()).Inc()
		p.presence.Add(trialStat(o.Verdict), 1)
		p.log.Info("a change of a layer's plan "+o.Verdict.String(), "layer", o.Layer,
			"expected_part", o.Expected, "saved_part", o.Came, "error", o.Error, "samples", o.Samples, "left_alone_seconds", max(0, o.Until-p.now()))
	}
}

func trialStat(v feedback.Verdict) string {
	if v.Stays() {
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
