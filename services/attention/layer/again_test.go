package layer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows that were computed before travel with what became of them in the layer, those of different
// bundles apart, and beside a stamp of their own bundle alone.
func TestReplays(t *testing.T) {
	y, r := newFakeLayer(t, 4)
	r.Exchange.shape.layers, r.back.fates.layers = []int{1, 3}, []int{1, 3}
	// Two rows before the first one of the step, and two in it, of two layers and two slots.
	codes := make([]wire.FateCode, 4*2*2)
	codes[2*4+2], codes[3*4+0] = wire.FateUnited, wire.FateLeftOut // row 0 in layer 3, row 1 in layer 1
	first := wire.EncodeFates(wire.FatesShape{Rows: 4, Layers: 2, Slots: 2}, codes)
	first.Way, first.Bundle = 2, 9
	second := wire.EncodeFates(wire.FatesShape{Rows: 1, Layers: 2, Slots: 2}, []wire.FateCode{0, 0, wire.FateUnited, 0})
	second.Way, second.Bundle = 4, 10
	step := sixRows
	step.Order = &Order{Stamp: &pb.Stamp{Version: 1, Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 4, Bundle: 10}}
	step.Replay = []Replay{{First: 0, Rows: 2, Skip: 2, Fates: first}, {First: 3, Rows: 1, Fates: second}}
	r.Begin(t.Context(), step)
	checkLayer(t, r, 6)
	var got []string
	for _, h := range y.sent {
		codes, err := wire.DecodeFates(h.Replay)
		if h.Replay == nil {
			codes, err = nil, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %d %v %d %v", h.Key.Part, h.Key.Rows, codes, h.Replay.GetWay(), h.Stamp != nil))
	}
	if want := []string{"0 3 [1 0 0 0 0 0] 2 false", "3 3 [1 0 0 0 0 0] 4 true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
