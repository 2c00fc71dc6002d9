package gate

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// planTraces show in gates' spans by which plans rows went, and when another one
// came. Goroutines take turns with them.
type planTraces map[int]uint64 // by layer, the version of the newest span

// describe tells a span of the plan in use, and of how many messages the rows made.
// The first span under another plan has an event that says why there is one, and a
// link to the span of that decision.
func (p planTraces) describe(span trace.Span, layer int, to *plan.Routes, messages int) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(telemetry.AttrPlanVersion.Int64(int64(to.Version)), telemetry.AttrFunctions.Int(messages))
	before, known := p[layer]
	p[layer] = to.Version
	if !known || before == to.Version {
		return
	}
	attributes := []attribute.KeyValue{telemetry.AttrPlanVersion.Int64(int64(to.Version))}
	if newest := to.Plan; newest.GetVersion() == to.Version {
		attributes = append(attributes, telemetry.AttrReason.String(newest.GetReason()))
		if decision, ok := telemetry.LinkTo(newest.GetTraceparent()); ok {
			span.AddLink(decision)
		}
	}
	span.AddEvent(telemetry.EventPlan, trace.WithAttributes(attributes...))
}
