package engine

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// watcher makes spans of a step's parts.
type watcher struct {
	tracer *telemetry.Tracer
	step   int
}

// Begin implements forward.Watcher.
func (w watcher) Begin(ctx context.Context, part string, layer int) (context.Context, func()) {
	ctx, span := w.tracer.Child(ctx, part, telemetry.Layer(uint32(layer)), trace.WithAttributes(telemetry.AttrStep.Int(w.step)))
	return ctx, func() { span.End() }
}

// beginStep starts the span of a microbatch's step if one of its requests is
// sampled: in the trace of the first such request, linked to the others. The
// watcher is nil if nobody watches.
func beginStep(ctx context.Context, tracer *telemetry.Tracer, mb *microbatch) (context.Context, forward.Watcher, func()) {
	if tracer == nil {
		return ctx, nil, func() {}
	}
	var first context.Context
	var links []trace.Link
	rows := 0
	for i := range mb.parts {
		p := &mb.parts[i]
		rows += p.rows
		if p.s.traceparent == "" {
			continue
		}
		traced := telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": {p.s.traceparent}})
		if first == nil {
			first = traced
		} else {
			links = append(links, trace.LinkFromContext(traced, telemetry.AttrRequest.String(p.s.seq.RequestId)))
		}
	}
	if first == nil {
		return ctx, nil, func() {}
	}
	first, span := tracer.Child(first, telemetry.SpanStep, trace.WithLinks(links...), trace.WithAttributes(
		telemetry.AttrRows.Int(rows), telemetry.AttrStep.Int(mb.parts[0].s.generated())))
	if mb.order != nil {
		s := mb.order.Stamp
		span.SetAttributes(
			telemetry.AttrDirective.Int64(int64(s.Version)), telemetry.AttrWay.Int(int(s.Way)), telemetry.AttrStrategy.String(s.Strategy.String()),
			telemetry.AttrPrefill.Float64(float64(s.PrefillMillionths)/brownout.One), telemetry.AttrDecode.Float64(float64(s.DecodeMillionths)/brownout.One),
		)
	}
	return first, watcher{tracer, mb.parts[0].s.generated()}, func() { span.End() }
}
