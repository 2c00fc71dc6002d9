package scaler

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/feedback"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// refusedForm is the kind of samples that the reader of the topic refuses.
const refusedForm = "form"

// follow shows what this scaler decided last, while it plans, until stop is called; its
// counters are there from the start, at 0.
func (p *policy) follow(m *telemetry.ScalerMetrics) (stop func()) {
	for _, cause := range elastic.Causes() {
		m.Rebalances(string(cause))
	}
	for _, verdict := range feedback.Verdicts() {
		m.Trials(verdict)
	}
	for _, kind := range elastic.Kinds {
		m.Refused(kind)
	}
	m.Refused(refusedForm)
	stops := []func(){
		m.Scalers.Follow(p.states),
		m.CV.Follow(p.perLayer(func(v elastic.Verdict) float64 { return v.After.CV })),
		m.Balancedness.Follow(p.perLayer(func(v elastic.Verdict) float64 { return v.After.Balancedness })),
		m.Replicas.Follow(p.replicas),
		m.PlanAge.Follow(p.ages),
		m.HostsWanted.Follow(p.hostsWanted),
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

func (p *policy) states() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active {
		return map[string]float64{"active": 1, "standby": 0}
	}
	return map[string]float64{"active": 0, "standby": 1}
}

// whileActive reads only while this scaler plans.
func (p *policy) whileActive(read func() []telemetry.Reading) func() []telemetry.Reading {
	return func() []telemetry.Reading {
		p.mu.Lock()
		active := p.active
		p.mu.Unlock()
		if !active {
			return nil
		}
		return read()
	}
}

// perLayer reads a number of each layer.
func (p *policy) perLayer(of func(elastic.Verdict) float64) func() map[string]float64 {
	return func() map[string]float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		all := map[string]float64{}
		if p.active {
			for _, v := range p.verdicts {
				all[strconv.Itoa(v.Layer)] = of(v)
			}
		}
		return all
	}
}

func (p *policy) replicas() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active || p.verdicts == nil {
		return nil
	}
	all := map[string]float64{}
	for _, v := range p.verdicts {
		all["warm"] += float64(v.Warm)
		all["kept"] += float64(v.Kept)
		all["cold"] += float64(v.Cold)
	}
	return all
}

func (p *policy) ages() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]float64{}
	if p.active {
		for l, when := range p.written {
			all[strconv.Itoa(l)] = time.Since(when).Seconds()
		}
	}
	return all
}

// count takes what the reader counts; what it hands on, observe counts.
func (p *policy) count(outcome string, n int) {
	switch outcome {
	case kafka.Refused:
		p.metrics.Refused(refusedForm).Add(float64(n))
	case kafka.Repeated:
		p.metrics.Samples("repeated").Add(float64(n))
	}
}

// countSamples adds what the core has counted since the last time; p.mu is held.
func (p *policy) countSamples() {
	if p.core == nil {
		return
	}
	now := p.core.Counts()
	p.metrics.Samples("taken").Add(float64(now.Taken - p.counts.Taken))
	p.metrics.Samples("repeated").Add(float64(now.Repeated - p.counts.Repeated))
	p.metrics.Samples("missing").Add(float64(now.Missing - p.counts.Missing))
	for kind, n := range now.Refused {
		p.metrics.Refused(kind).Add(float64(n - p.counts.Refused[kind]))
	}
	p.counts = now
}

// countCauses counts a layer's change; p.mu is held.
func (p *policy) countCauses(v elastic.Verdict) {
	for _, cause := range v.Causes {
		p.metrics.Rebalances(string(cause)).Inc()
	}
	p.presence.Add("rebalances_total", 1)
}

// trace draws a decision that changes something, and writes it into the plans, so
// that who uses them can point to it.
func (p *policy) trace(began time.Time, d *plan.Decision, verdicts []elastic.Verdict) {
	changed := 0
	for _, v := range verdicts {
		changed += min(len(v.Causes), 1)
	}
	if changed == 0 {
		return
	}
	ctx, span := p.tracer.Start(context.Background(), telemetry.SpanPlan, trace.WithTimestamp(began), trace.WithAttributes(
		telemetry.AttrScaling.String(p.settings.Scaling), telemetry.AttrLayers.Int(changed)))
	defer span.End()
	parent := telemetry.Traceparent(ctx)
	for i, v := range verdicts {
		if len(v.Causes) == 0 {
			continue
		}
		d.Layers[i].Traceparent = parent
		span.AddEvent("layer", trace.WithAttributes(telemetry.AttrLayer.Int(v.Layer), telemetry.AttrReason.String(v.Reason)))
	}
}

// remembers is by which factor rows of a layer are forgotten when as many have come again.
const remembers = 0.5

// activation is the share of each expert in the last rows of its layer: the historical mean, by
// which prompts are foretold that nothing else is known of.
type activation struct {
	experts int
	at      map[uint32]int // of layers

	mu    sync.Mutex
	rows  []float64 // (layers, experts)
	sums  []float64 // of layers
	fresh []float64 // rows since the last were forgotten
}

func newActivation(layers []int, experts int) *activation {
	a := &activation{experts: experts, at: map[uint32]int{}, rows: make([]float64, len(layers)*experts), sums: make([]float64, len(layers)), fresh: make([]float64, len(layers))}
	for i, l := range layers {
		a.at[uint32(l)] = i
	}
	return a
}

// manyRows are those of a layer that are remembered in full.
const manyRows = 4096

// add takes in a gate's sample, which was checked.
func (a *activation) add(s *pb.LoadSample) {
	i, ok := a.at[s.Layer]
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.rows[i*a.experts : (i+1)*a.experts]
	for _, step := range s.Steps {
		for k, e := range step.Expert {
			n := float64(step.Count[k])
			of[e] += n
			a.sums[i], a.fresh[i] = a.sums[i]+n, a.fresh[i]+n
		}
	}
	if a.fresh[i] < manyRows {
		return
	}
	for e := range of {
		of[e] *= remembers
	}
	a.sums[i], a.fresh[i] = a.sums[i]*remembers, 0
}

// any reports whether rows have come in each layer.
func (a *activation) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sum := range a.sums {
		if sum == 0 {
			return false
		}
	}
	return true
}

// mean returns the shares; even ones in a layer without rows.
func (a *activation) mean() []float32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	mean := make([]float32, len(a.rows))
	for i := range mean {
		mean[i] = 1 / float32(a.experts)
		if sum := a.sums[i/a.experts]; sum > 0 {
			mean[i] = float32(a.rows[i] / sum)
		}
	}
	return mean
}

func (a *activation) divergence(foretold []float32) float64 {
	return sps.Divergence(foretold, a.mean(), a.experts)
}
