package attention

import (
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

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
	mb := &microbatch{parts: []part{partOf(1, 1, 1, 1), partOf(5, 0, 0, 5)}}
	r.begin(t.Context(), runsOf(mb), nil, time.Time{})
	checkLayer(t, r, 6)
	checkLayer(t, r, 6)
	r.tellRows(mb)
	for i, want := range []cost{{byteSeconds: 2, coldStarts: 1, metered: true}, {byteSeconds: 40, coldStarts: 1, metered: true}} {
		if got := mb.parts[i].cost; got != want {
			t.Errorf("part %d: %+v, want %+v", i, got, want)
		}
	}
	y.fault = nil
	r.begin(t.Context(), runsOf(mb), nil, time.Time{})
	checkLayer(t, r, 6)
	if r.tellRows(mb); mb.parts[0].cost != (cost{}) {
		t.Errorf("the next step, which nobody metered, has %+v", mb.parts[0].cost)
	}
}

// Where a layer has but some of a step's rows, all of these share what it took.
func TestCostsOfSomeRows(t *testing.T) {
	c := stepCosts{}
	c.begin(4)
	c.take(&rowsPart{first: 0, rows: 2}, 2, &pb.Block{ByteSeconds: []float32{3, 5}, Functions: []*pb.FunctionTime{{Function: 7, ColdRows: []uint32{1}}}})
	for _, first := range []int{0, 2} {
		if got := c.of(first, 2); got != (cost{byteSeconds: 4, coldStarts: 1, metered: true}) {
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

// Who takes a sequence over goes on with what it took before.
func TestRestoredCost(t *testing.T) {
	s := newSequence(&pb.Sequence{PromptIds: []uint32{1}, MaxTokens: 9})
	record := func(index int32, c *pb.Cost) tokenlog.Entry {
		return tokenlog.Entry{Record: &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: index, Cost: c}}}}
	}
	s.restore([]tokenlog.Entry{record(0, &pb.Cost{ExpertGbS: 1}), record(1, &pb.Cost{ExpertGbS: 2.5, ColdStarts: 3})}, time.Time{})
	s.cost.add(cost{byteSeconds: 5e8, coldStarts: 1, metered: true})
	if got := s.cost.record(); got.ExpertGbS != 3 || got.ColdStarts != 4 {
		t.Errorf("%v", got)
	}
}
