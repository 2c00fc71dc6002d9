package hints

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// unloaded is the outcome of a want, in its span alone, for which no load has begun before its step was at its layer.
const unloaded = "unloaded"

// traced is what a want's spans tell beside the want itself.
type traced struct {
	outcome string    // of metrics; empty until it is known
	met     time.Time // when rows asked for it; zero: none have
	// began and ended are those of the load; zero: it has not ended.
	began, ended time.Time
}

// underWay remembers the trace of a step's first dispatch that has one: hints come without.
func (fl *flow) underWay(span trace.SpanContext) {
	if !fl.trace.IsValid() && span.IsSampled() {
		fl.trace = span
	}
}

// transferred is for a load that has ended well just now, which may be one for rows alone.
func (w *want) transferred(e device.Ended) {
	if w.has() && w.spans.ended.IsZero() {
		w.spans.ended = time.Now()
		w.spans.began = w.spans.ended.Add(-e.Took)
	}
}

// Loaded says that a load has ended well.
func (f *Follower) Loaded(e device.Ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range f.flows {
		if w := fl.wants[e.ID]; w != nil {
			w.transferred(e)
			w.there()
		}
	}
}

// show makes the spans of a want that is over and was not in memory when its hint came: one from the hint to the rows
// or to the end of the want, and below it one of the load. What a step hints at whose rows ask this host for nothing
// has no trace.
func (f *Follower) show(w *want) {
	if f.Tracer == nil || !w.caused || !w.flow.trace.IsValid() {
		return
	}
	s := &w.spans
	if s.outcome == "" {
		s.outcome = unloaded
	}
	ctx := trace.ContextWithSpanContext(context.Background(), w.flow.trace)
	ctx, span := f.Tracer.Child(ctx, telemetry.SpanPrefetch, trace.WithTimestamp(w.came), telemetry.Layer(uint32(w.id.Layer)), telemetry.Prefetched(w.id.Expert, w.p, s.outcome))
	end := s.met
	if end.IsZero() {
		end = time.Now()
	}
	if !s.ended.IsZero() {
		_, load := f.Tracer.Child(ctx, telemetry.SpanLoad, trace.WithTimestamp(s.began), telemetry.LoadedBytes(w.bytes))
		load.End(trace.WithTimestamp(s.ended))
	}
	span.End(trace.WithTimestamp(latest(end, s.ended)))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
