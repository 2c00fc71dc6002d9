package wire

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestCheckStamp(t *testing.T) {
	s := &Shape{Identity: Identity{Model: 7}, Hidden: 1, Experts: 4, TopK: 2, MoE: []bool{true}, MaxRows: func() int { return 9 }}
	partial := pb.Strategy_STRATEGY_PARTIAL
	later := &pb.Stamp{}
	later.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 1}) // field 127
	united := EncodeFates(FatesShape{Rows: 2, Layers: 1, Slots: 2}, []FateCode{0, 1, 0, 0})
	for name, tc := range map[string]struct {
		stamp  *pb.Stamp
		change func(*pb.Hidden)
		good   bool
	}{
		"none":                 {nil, nil, true},
		"empty":                {&pb.Stamp{}, nil, true},
		"a later one's":        {later, nil, true},
		"whole range":          {&pb.Stamp{Version: 1, Strategy: partial, Way: 4, PrefillMillionths: One}, nil, true},
		"an unknown strategy":  {&pb.Stamp{Version: 1, Strategy: 9}, nil, true},
		"no version":           {&pb.Stamp{Way: 2}, nil, false},
		"prefill":              {&pb.Stamp{Version: 1, PrefillMillionths: One + 1}, nil, false},
		"decode":               {&pb.Stamp{Version: 1, DecodeMillionths: One + 1}, nil, false},
		"way 1":                {&pb.Stamp{Version: 1, Way: 1}, nil, false},
		"a wide way":           {&pb.Stamp{Version: 1, Way: 5}, nil, false},
		"no way":               {&pb.Stamp{Version: 1, Strategy: partial}, nil, false},
		"the last part":        {nil, func(h *pb.Hidden) { h.Key.Part, h.WholeRows = 3, 5 }, true},
		"beyond the whole":     {nil, func(h *pb.Hidden) { h.Key.Part, h.WholeRows = 4, 5 }, false},
		"a huge whole":         {nil, func(h *pb.Hidden) { h.WholeRows = maxWhole + 1 }, false},
		"a replay":             {nil, func(h *pb.Hidden) { h.Replay = united }, true},
		"another key's replay": {nil, func(h *pb.Hidden) { h.Replay = PlainFates(FatesShape{Rows: 3, Layers: 1, Slots: 2}) }, false},
	} {
		h := &pb.Hidden{
			Key:    &pb.Key{Version: schemas.Version, Model: 7, Owner: "a", Rows: 2},
			Tensor: tensor.Encode(tensor.F32, []float32{1, 2}, 1, nil), Stamp: tc.stamp,
			Phases: []*pb.PhaseRange{{Phase: pb.Phase_PHASE_DECODE, Rows: 2}},
		}
		if tc.change != nil {
			tc.change(h)
		}
		if _, err := s.CheckHidden(h); (err == nil) != tc.good || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want good %v", name, err, tc.good)
		}
	}
}
