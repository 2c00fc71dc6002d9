package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// stats is what a replica tells of its work: metrics, and counters among the members.
type stats struct {
	metrics  *telemetry.Metrics
	presence *deployment.Presence
	kv       *kvcache.Pool
	model    string
	log      *slog.Logger
	times    *stepTimes
	steps    func(*ledger.Step) // nil: nobody listens
	// directives hear what steps take; nil: there are none.
	directives Directives

	sequences atomic.Int64
}

func newStats(d *deployment.Deployment, p *deployment.Presence, kv *kvcache.Pool, replica string) *stats {
	st := &stats{
		metrics: d.Telemetry.Metrics, presence: p, kv: kv, model: d.Subjects.Model, log: d.Logger, steps: d.Steps,
		times: newStepTimes(d.Telemetry.Metrics, d.MoELayers()),
	}
	if d.Loads != nil {
		st.times.layers = loads.NewTimes(d.Identity.Model, replica)
	}
	return st
}

// mirror shows pages and sequences as they are whenever metrics are read.
func (s *stats) mirror() (stop func()) {
	pages := s.metrics.KVPages.Follow(func() map[string]float64 {
		used := s.kv.Used()
		return map[string]float64{"used": float64(used), "free": float64(s.kv.Capacity() - used)}
	})
	active := s.metrics.Sequences.Follow(func() map[string]float64 {
		return map[string]float64{"active": float64(s.sequences.Load())}
	})
	return func() { pages(); active() }
}

func (s *stats) active(n int) {
	s.sequences.Store(int64(n))
	s.presence.Set(members.Active, float64(n))
	used := s.kv.Used()
	s.presence.Set(members.KVPagesUsed, float64(used))
	s.presence.Set(members.KVPages, float64(s.kv.Capacity()))
}

// step counts a microbatch that went through the layers.
func (s *stats) step(mb *microbatch, times *ledger.Step) {
	tokens := 0
	for i := range mb.parts {
		if !mb.parts[i].s.flow.IsCanary() {
			tokens += len(mb.parts[i].choices)
		}
	}
	s.metrics.Step().Observe((mb.layers + mb.heads).Seconds())
	if s.directives != nil && !mb.probes() {
		s.directives.Step(mb.stepped())
	}
	s.times.add(mb.rows, times)
	if s.steps != nil {
		times.Parts = mb.shares()
		s.steps(times)
	}
	s.metrics.BatchRows().Observe(float64(mb.rows))
	s.metrics.CompletionTokens().Add(float64(tokens))
	s.presence.Add(members.Steps, 1)
	s.presence.Add(members.StepRows, float64(mb.rows))
	s.presence.Add(members.Tokens, float64(tokens))
}

// panicked reports a fault of the program that a step met.
func (s *stats) panicked(value any, stack []byte) {
	s.metrics.Panics.Inc()
	s.log.Error("a step panicked", "panic", value, "stack", string(stack))
}

// spared counts the ids that a sequence need not compute, and those that it has to, when it gets pages.
func (s *stats) spared(q *Sequence, ids int) {
	if !q.flow.IsCanary() {
		s.metrics.PrefixTokens("cached").Add(float64(ids))
		s.metrics.PrefixTokens("computed").Add(float64(len(q.ids) - ids))
	}
}

// finished counts a producer's request that ended, however it did.
func (s *stats) finished(q *Sequence) {
	if q.flow.IsCanary() {
		return
	}
	outcome, code := q.end.FinishReason, ""
	if q.end.Error != nil {
		outcome, code = q.end.Error.Code, q.end.Error.Code
	}
	s.metrics.Outcome(outcome).Inc()
	s.presence.Add(members.Finished, 1)
	s.presence.Add(members.RequestSeconds, q.end.Timings.Total)
	if code != "" {
		s.presence.Add(members.Failed, 1)
	}
	seconds := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
	s.metrics.Answered(telemetry.Answer{
		Operation: "text_completion", Model: s.model, ErrorCode: code,
		Total: seconds(q.end.Timings.Total), FirstToken: seconds(q.end.Timings.Ttft), Tokens: q.generated(),
	})
}

// stepTimes is where the times of steps go.
type stepTimes struct {
	// Histograms, found beforehand: by forward.Part, and by layer and ledger.Stage.
	parts  []prometheus.Observer
	stages map[int][]prometheus.Observer
	layers *loads.Times // for who plans by them; nil: nobody does
}

// newStepTimes makes the histograms of a model's layers, at 0.
func newStepTimes(m *telemetry.Metrics, layers []int) *stepTimes {
	t := &stepTimes{parts: m.StepParts(forward.PartNames()), stages: map[int][]prometheus.Observer{}}
	for _, l := range layers {
		t.stages[l] = m.LayerStages(l, ledger.StageNames())
	}
	return t
}

// add takes in a step of so many rows.
func (t *stepTimes) add(rows int, s *ledger.Step) {
	for i, part := range t.parts {
		part.Observe(s.Own[i].Seconds())
	}
	for i := range s.Layers {
		l := &s.Layers[i]
		for at, stage := range t.stages[l.Layer] {
			stage.Observe(l.By[at].Seconds())
		}
	}
	if t.layers != nil {
		t.tell(rows, s)
	}
}

// tell takes in what the layers of a step took, for who plans by it.
func (t *stepTimes) tell(rows int, s *ledger.Step) {
	for i := range s.Layers {
		l := &s.Layers[i]
		t.layers.Add(l.Layer, loads.Took{
			Rows: rows, Dispatches: l.Functions, Total: l.Time(), Messages: l.By[ledger.Messages] + l.By[ledger.AggregatorWait] + l.By[ledger.ExpertTransfer],
		})
	}
}

// send tells what layers took, and how many requests wait for the first of them, until ctx ends.
func (t *stepTimes) send(ctx context.Context, d *deployment.Deployment, waiting func() int) {
	if t.layers == nil {
		return
	}
	tick := time.NewTicker(loads.TimesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.layers.Wait(d.MoELayers()[0], waiting())
			for _, sample := range t.layers.Take(loads.TimesEvery) {
				d.Loads.Send(sample)
			}
		}
	}
}
