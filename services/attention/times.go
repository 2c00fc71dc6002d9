package attention

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/ledger"
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
