package layer

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// counts is what a replica tells of its layers: metrics, and counters among the members.
type counts struct {
	metrics  *telemetry.Metrics
	presence *deployment.Presence
}

// unannounced counts a step whose announcement was not sent.
func (c *counts) unannounced() { c.metrics.UnannouncedSteps.Inc() }

// hop counts a layer whose blocks are back, and tells its times to whoever traces it.
func (c *counts) hop(ctx context.Context, took time.Duration, l *ledger.Layer) {
	c.metrics.LayerHop().Observe(took.Seconds())
	describe(trace.SpanFromContext(ctx), l)
}

// cut counts claims of blocks that could not be.
func (c *counts) cut(n int) { c.metrics.TimeClaims.Add(float64(n)) }

func (c *counts) reissued(n int) {
	c.metrics.Reissues.Add(float64(n))
	c.presence.Add("reissues_total", float64(n))
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
