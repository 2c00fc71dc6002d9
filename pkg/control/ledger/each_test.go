package ledger

import (
	"slices"
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Each dispatch of each group is told, within what the layer took.
func TestEach(t *testing.T) {
	first := &pb.Block{Key: &pb.Key{}, Functions: []*pb.FunctionTime{{Function: 7, Rows: 2, QueueNs: 1, StallNs: 2, ComputeNs: 3, TransferNs: 4}, {Function: 8, Rows: 90, ComputeNs: 1 << 62}}}
	second := &pb.Block{Key: &pb.Key{Part: 2}, Functions: []*pb.FunctionTime{{Function: 7, Rows: 1}, {Function: 9}, {Function: 10}}}
	got := Each(Each(nil, 100, first, 4), 100, second, 2)
	want := []Function{
		{ID: 7, Rows: 2, Queue: 1, Stall: 2, Compute: 3, Transfer: 4}, {ID: 8, Rows: 4, Compute: 100 * time.Nanosecond},
		{ID: 7, Part: 2, Rows: 1}, {ID: 9, Part: 2},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
