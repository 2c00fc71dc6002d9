package wire

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A group of three rows and two slots has six places of slots, and three of sums behind them.
func TestCheckSums(t *testing.T) {
	s := &Shape{Identity: Identity{Model: 7}, Hidden: 1, Experts: 4, TopK: 2, MoE: []bool{true}, MaxRows: func() int { return 9 }}
	for _, tc := range []struct {
		name   string
		awaits Awaits
		place  uint32
		good   bool
	}{
		{"a slot", nil, 5, true},
		{"the first sum", nil, s.SumPlace(3, 0), true},
		{"the last sum", nil, s.SumPlace(3, 2), true},
		{"of a row of which one slot is awaited", Awaits{0b100000}, 8, true},
		{"of a row of which none is", Awaits{0b100000}, 7, false},
		{"a slot that is not awaited", Awaits{0b011111}, 5, false},
		{"outside", nil, 9, false},
		{"far outside", nil, 1<<32 - 1, false},
	} {
		_, err := s.CheckPartial(&pb.Partial{
			Key:   &pb.Key{Version: schemas.Version, Model: 7, Owner: "a", Rows: 3},
			Place: []uint32{tc.place}, Awaits: tc.awaits, Tensor: tensor.Encode(tensor.F32, []float32{1}, 1, nil),
		})
		if (err == nil) != tc.good || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want good %v", tc.name, err, tc.good)
		}
	}
	for name, change := range map[string]func(*pb.Partial){
		"memory of another place": func(p *pb.Partial) { p.ByteSeconds = []float32{1, 1} },
		"less than no memory":     func(p *pb.Partial) { p.ByteSeconds = []float32{-1} },
		"a cold row outside":      func(p *pb.Partial) { p.Function = &pb.FunctionTime{ColdRows: []uint32{3}} },
	} {
		p := &pb.Partial{
			Key:   &pb.Key{Version: schemas.Version, Model: 7, Owner: "a", Rows: 3},
			Place: []uint32{0}, Tensor: tensor.Encode(tensor.F32, []float32{1}, 1, nil),
		}
		change(p)
		if _, err := s.CheckPartial(p); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for row := range 3 {
		if got, sum := s.SummedRow(3, s.SumPlace(3, row)); got != row || !sum {
			t.Errorf("the sum of row %d is that of row %d, %v", row, got, sum)
		}
	}
	if _, sum := s.SummedRow(3, 5); sum {
		t.Error("the last slot is a sum")
	}
}
