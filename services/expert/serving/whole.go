package serving

import (
	"context"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// whole says whether what comes of a dispatch is all that its group awaits, with one row for each of the
// group's. Then an aggregator would send on what it got, since the host has added up the slots in its way
// (compute/rowsums.go): the partial is the group's block.
func (s *Serving) whole(d *pb.Dispatch, p *pb.Partial) bool {
	rows := int(d.Key.GetRows())
	return d.Parcel == nil && d.Key.GetRowSums() && len(p.Place) == rows &&
		len(d.Place) == wire.Awaits(d.Awaits).Count(rows*s.d.Shape.TopK) && (d.Fates == nil) == (d.Decision == 0)
}

// answer sends a group's block to the owner of its rows. It has the aggregator's span in traces, and its rights
// are those of refusing rows.
func (s *Serving) answer(ctx context.Context, p *pb.Partial) error {
	ctx, span := s.Tracer.Child(ctx, telemetry.SpanAggregate, telemetry.Layer(p.Key.Layer), telemetry.Attempt(p.Key.Attempt))
	defer span.End()
	p.Key.RowSums = false // it is of aggregators
	return wire.SendBlock(ctx, s.d.Hop, s.d.Subjects, &pb.Block{
		Key: p.Key, Tensor: p.Tensor, Gate: p.Gate, Functions: []*pb.FunctionTime{p.Function}, Fates: p.Fates, ByteSeconds: p.ByteSeconds,
	})
}
