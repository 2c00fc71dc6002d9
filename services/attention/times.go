package attention

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// observers are the histograms of a step's times, found beforehand.
type observers struct {
	parts  []prometheus.Observer         // by forward.Part
	stages map[int][]prometheus.Observer // by layer and ledger.Stage
}

// observe makes the histograms of a model's layers, at 0.
func observe(m *telemetry.Metrics, layers []int) observers {
	o := observers{parts: m.StepParts(forward.PartNames()), stages: map[int][]prometheus.Observer{}}
	for _, l := range layers {
		o.stages[l] = m.LayerStages(l, ledger.StageNames())
	}
	return o
}

func (o *observers) observe(s *ledger.Step) {
	for i, part := range o.parts {
		part.Observe(s.Own[i].Seconds())
	}
	for i := range s.Layers {
		l := &s.Layers[i]
		for at, stage := range o.stages[l.Layer] {
			stage.Observe(l.By[at].Seconds())
		}
	}
}

// addTimes takes in what the layers of a step took, for who plans by it.
func (s *stats) addTimes(rows int, step *ledger.Step) {
	if s.times == nil {
		return
	}
	for i := range step.Layers {
		l := &step.Layers[i]
		s.times.Add(l.Layer, loads.Took{
			Rows: rows, Dispatches: l.Functions, Total: l.Time(), Messages: l.By[ledger.Messages] + l.By[ledger.AggregatorWait] + l.By[ledger.ExpertTransfer],
		})
	}
}

// sendTimes tells what layers took until ctx ends.
func (s *Service) sendTimes(ctx context.Context) {
	times := s.engine.stats.times
	if times == nil {
		return
	}
	tick := time.NewTicker(loads.TimesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, sample := range times.Take(loads.TimesEvery) {
				s.d.Loads.Send(sample)
			}
		}
	}
}

// describe writes a layer's times to its span, in microseconds.
func describe(span trace.Span, l *ledger.Layer) {
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		telemetry.AttrFunctions.Int(l.Functions), telemetry.AttrCritical.String(fmt.Sprintf("%016x", l.Critical)),
	}
	for stage, d := range l.By {
		attributes = append(attributes, attribute.Float64(ledger.Stage(stage).String()+"_us", float64(d.Nanoseconds())/1e3))
	}
	span.SetAttributes(attributes...)
}
