package layer

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Blocks' fates come to the rows they are of, however these were cut, and no block's none.
func TestStepFates(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	r.back.fates.layers = []int{1, 3}
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		if h.Key.Part == 2 {
			b.Fates = wire.EncodeFates(wire.FatesShape{Rows: 2, Layers: 1, Slots: 2}, []wire.FateCode{0, 0, wire.FateUnited, wire.FateLeftOut})
			b.Fates.Way, b.Fates.Bundle = 4, 9
		}
		return []*pb.Block{b}, nil, true
	}
	r.Begin(t.Context(), sixRows)
	checkLayer(t, r, 6)
	if of, _ := r.Outcome(0, 1); of != nil {
		t.Errorf("the first row has %v", of)
	}
	of, _ := r.Outcome(1, 5)
	got, err := wire.DecodeFates(of)
	want := make([]wire.FateCode, 5*2*2)
	want[2*4+2], want[2*4+3] = wire.FateUnited, wire.FateLeftOut // row 3 of the step, layer 3
	if err != nil || !slices.Equal(got, want) || of.Way != 4 || of.Bundle != 9 {
		t.Errorf("%v, %v: %v", of, err, got)
	}
	r.Begin(t.Context(), sixRows)
	y.fault = nil
	checkLayer(t, r, 6)
	if of, _ := r.Outcome(1, 5); of != nil {
		t.Errorf("the next step has %v", of)
	}
}

// A block of other rows' fates is refused.
func TestBadFates(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		b.Fates = wire.PlainFates(wire.FatesShape{Rows: 1, Layers: 1, Slots: 2})
		return nil, y.deliver(b), true
	}
	if _, _, err := layer(t.Context(), r, 2); err == nil {
		t.Error("taken")
	}
}

// Whoever hears of steps hears of each dispatch, of every part of a layer.
func TestEachFunction(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	r.back.each = true
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		b.Functions = []*pb.FunctionTime{{Function: 7, Rows: 2}, {Function: 8, Rows: 1}}
		return []*pb.Block{b}, nil, true
	}
	for range 2 {
		checkLayer(t, r, 4)
	}
	if len(r.Layers()) != 2 || len(r.Layers()[0].Each) != 4 || r.Layers()[1].Each[2].Part != 2 {
		t.Errorf("%+v", r.Layers())
	}
}
