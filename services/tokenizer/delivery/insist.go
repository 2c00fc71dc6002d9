package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// deliverRetry is the pause while the server is away.
const deliverRetry = 50 * time.Millisecond

// insist sends a chunk; while the server is away it waits for it, or until ctx ends.
func (s *Sender) insist(ctx context.Context, a *answer, c *pb.Chunk) bool {
	if a.cut {
		return true
	}
	span := s.chunkSpan(ctx, a.accept, c)
	defer span.End()
	for {
		err := s.Deliver(destinationOf(a.accept), c)
		if err == nil {
			return true
		}
		if a.cut = errors.Is(err, errCut); a.cut || !bus.Transient(err) {
			s.d.Logger.Warn("delivering a chunk", "request", a.request, "error", err)
			return true // nor would the next owner have more success
		}
		if pause.For(ctx, deliverRetry) != nil {
			return false
		}
	}
}

func (s *Sender) chunkSpan(ctx context.Context, accept *pb.Accept, c *pb.Chunk) trace.Span {
	if s.tracer == nil || accept.Traceparent == "" {
		return noop.Span{}
	}
	ctx = telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": {accept.Traceparent}})
	_, span := s.tracer.Child(ctx, telemetry.SpanChunk, trace.WithAttributes(telemetry.AttrRequest.String(c.RequestId)))
	return span
}
