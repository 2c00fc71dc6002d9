package serving

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// whole reports whether what comes of a dispatch is all that its group awaits, with one row for each of the
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

// coldRows returns the token rows of places, which ascend.
func coldRows(shape *wire.Shape, places []uint32) (rows []uint32) {
	for _, place := range places {
		if row := uint32(shape.Row(place)); len(rows) == 0 || rows[len(rows)-1] != row {
			rows = append(rows, row)
		}
	}
	return rows
}

// onlyExperts returns the part of a dispatch that some of its experts compute.
func onlyExperts(shape *wire.Shape, d *pb.Dispatch, experts []uint32) *pb.Dispatch {
	part := &pb.Dispatch{
		Key: proto.CloneOf(d.Key), Function: d.Function, Awaits: d.Awaits, Gate: d.Gate, Kind: d.Kind, Way: d.Way, Fates: d.Fates, Prefill: d.Prefill, Decision: d.Decision,
		Tensor: &pb.Tensor{Dtype: d.Tensor.Dtype, Cols: d.Tensor.Cols},
	}
	stride := len(d.Tensor.Data) / int(d.Tensor.Rows)
	at, last := -1, -1 // the tensor's row of a place, and the last one that the part has
	for i, place := range d.Place {
		if i == 0 || shape.Row(place) != shape.Row(d.Place[i-1]) {
			at++
		}
		if !slices.Contains(experts, d.Expert[i]) {
			continue
		}
		part.Place, part.Expert, part.Weight = append(part.Place, place), append(part.Expert, d.Expert[i]), append(part.Weight, d.Weight[i])
		if at != last {
			last = at
			part.Tensor.Rows++
			part.Tensor.Data = append(part.Tensor.Data, d.Tensor.Data[at*stride:(at+1)*stride]...)
		}
	}
	return part
}
