package layer

import (
	"math"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sixRows is a step of a generated token, and of a prompt of five.
var sixRows = Step{Runs: []*pb.Run{
	{Tokens: make([]uint32, 1), Phase: pb.Phase_PHASE_DECODE}, {Tokens: make([]uint32, 5), Phase: pb.Phase_PHASE_PREFILL},
}}

// What blocks say that rows took comes to the sequences that they are of, and a cold function
// counts once for each of them that waited for it.
func TestStepCosts(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		b.ByteSeconds = []float32{float32(h.Key.Part) + 1, float32(h.Key.Part) + 2}
		b.Functions = []*pb.FunctionTime{{Function: 7, ColdRows: []uint32{0, 1}}, {Function: 8}}
		return []*pb.Block{b}, nil, true
	}
	r.Begin(t.Context(), sixRows)
	checkLayer(t, r, 6)
	checkLayer(t, r, 6)
	for _, tc := range []struct {
		first, rows int
		want        Cost
	}{
		{0, 1, Cost{ByteSeconds: 2, ColdStarts: 1, Metered: true}},
		{1, 5, Cost{ByteSeconds: 40, ColdStarts: 1, Metered: true}},
	} {
		if _, got := r.Outcome(tc.first, tc.rows); got != tc.want {
			t.Errorf("%d rows from %d: %+v, want %+v", tc.rows, tc.first, got, tc.want)
		}
	}
	y.fault = nil
	r.Begin(t.Context(), sixRows)
	checkLayer(t, r, 6)
	if _, got := r.Outcome(0, 1); got != (Cost{}) {
		t.Errorf("the next step, which nobody metered, has %+v", got)
	}
}

// Where a layer has but some of a step's rows, all of these share what it took.
func TestCostsOfSomeRows(t *testing.T) {
	c := stepCosts{}
	c.begin(4)
	c.take(&rowsPart{first: 0, rows: 2}, 2, &pb.Block{ByteSeconds: []float32{3, 5}, Functions: []*pb.FunctionTime{{Function: 7, ColdRows: []uint32{1}}}})
	for _, first := range []int{0, 2} {
		if got := c.of(first, 2); got != (Cost{ByteSeconds: 4, ColdStarts: 1, Metered: true}) {
			t.Errorf("rows from %d: %+v", first, got)
		}
	}
}

// A block that tells what cannot be is refused.
func TestBadCosts(t *testing.T) {
	for name, change := range map[string]func(*pb.Block){
		"rows":     func(b *pb.Block) { b.ByteSeconds = []float32{1} },
		"no time":  func(b *pb.Block) { b.ByteSeconds = []float32{1, float32(math.NaN())} },
		"less":     func(b *pb.Block) { b.ByteSeconds = []float32{1, -1} },
		"endless":  func(b *pb.Block) { b.ByteSeconds = []float32{1, float32(math.Inf(1))} },
		"cold row": func(b *pb.Block) { b.Functions = []*pb.FunctionTime{{ColdRows: []uint32{2}}} },
	} {
		y, r := newFakeLayer(t, 2)
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			b := twice(h)
			change(b)
			return nil, y.deliver(b), true
		}
		if _, _, err := layer(t.Context(), r, 2); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
