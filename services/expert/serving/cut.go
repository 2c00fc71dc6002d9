package serving

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// coldRows are the token rows of places, which ascend.
func coldRows(shape *wire.Shape, places []uint32) (rows []uint32) {
	for _, place := range places {
		if row := uint32(shape.Row(place)); len(rows) == 0 || rows[len(rows)-1] != row {
			rows = append(rows, row)
		}
	}
	return rows
}

// onlyExperts is the part of a dispatch that some of its experts compute.
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
