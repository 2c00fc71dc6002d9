package layer

import (
	"slices"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What gates tell of a layer's parts and layers is added up, where all that were asked have told
// what can be.
func TestStepCurve(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	order := &Order{Stamp: &pb.Stamp{Version: 1, Whole: true, Points: 3}}
	for name, tc := range map[string]struct {
		order *Order
		tells func(part uint32) []uint32
		want  []uint32
	}{
		"all":                 {order, func(part uint32) []uint32 { return []uint32{1, 2, 3 + part} }, []uint32{6, 12, 30}},
		"nobody asked":        {nil, func(uint32) []uint32 { return []uint32{1, 2, 3} }, nil},
		"one is silent":       {order, func(part uint32) []uint32 { return []uint32{1, 2, 3}[:3*min(part, 1)] }, nil},
		"of other thresholds": {order, func(part uint32) []uint32 { return []uint32{1, 2, 3, 4}[:3+part/4] }, nil},
		"more than there are": {order, func(part uint32) []uint32 { return []uint32{1, 2, 13 + part} }, nil},
		"of too many":         {order, func(uint32) []uint32 { return make([]uint32, mostPoints+1) }, nil},
	} {
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			b := twice(h)
			b.Gate = &pb.GateTime{Accesses: tc.tells(h.Key.Part)}
			return []*pb.Block{b}, nil, true
		}
		step := sixRows
		step.Order = tc.order
		r.Begin(t.Context(), step)
		checkLayer(t, r, 6)
		checkLayer(t, r, 6)
		if got := r.Curve(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
