package layer

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A layer's rows are stamped unless it is exempt; where they travel in several messages each of
// them is decided alone.
func TestOrder(t *testing.T) {
	o := &Order{Stamp: &pb.Stamp{Version: 2, Whole: true, Way: 4}, Exempt: []uint32{3}}
	if (*Order)(nil).stamp(0, 1) != nil || o.stamp(3, 1) != nil {
		t.Error("a layer is stamped that none orders")
	}
	if o.stamp(0, 1) != o.Stamp {
		t.Error("one message has another stamp")
	}
	if got := o.stamp(0, 2); got.Whole || got.Way != 4 || !o.Stamp.Whole {
		t.Errorf("of two messages: %v", got)
	}
}

// Rows that may not be degraded are told apart, and without an order messages are as before.
func TestStampedRows(t *testing.T) {
	for _, order := range []*Order{nil, {Stamp: &pb.Stamp{Version: 1, Whole: true}}} {
		y, r := newFakeLayer(t, 4)
		r.Begin(t.Context(), Step{Order: order, Runs: []*pb.Run{
			{Sequence: "a", Tokens: []uint32{1}, Phase: pb.Phase_PHASE_DECODE}, {Sequence: "b", Tokens: []uint32{1}, Phase: pb.Phase_PHASE_DECODE, Own: order != nil},
		}})
		checkLayer(t, r, 2)
		h := y.sent[0]
		if order == nil && (h.Stamp != nil || h.WholeRows != 0 || len(h.Phases) != 1) {
			t.Errorf("without an order: %v", h)
		}
		if order != nil && (!proto.Equal(h.Stamp, order.Stamp) || h.WholeRows != 2 || len(h.Phases) != 2 || !h.Phases[1].Own) {
			t.Errorf("with one: %v", h)
		}
	}
}
