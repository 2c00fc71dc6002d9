package attention

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/request/fates"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Blocks' fates come to the rows they are of, however these were cut, and no block's none.
func TestStepFates(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	r.fates.layers = []int{1, 3}
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		if h.Key.Part == 2 {
			b.Fates = fates.Encode(fates.Shape{Rows: 2, Layers: 1, Slots: 2}, []fates.Code{0, 0, fates.United, fates.LeftOut})
			b.Fates.Way, b.Fates.Bundle = 4, 9
		}
		return []*pb.Block{b}, nil, true
	}
	mb := &microbatch{parts: []part{partOf(1, 1, 1, 1), partOf(5, 0, 0, 5)}}
	r.begin(t.Context(), runsOf(mb), nil, time.Time{})
	checkLayer(t, r, 6)
	r.tellRows(mb)
	if mb.parts[0].fates != nil {
		t.Errorf("the first row has %v", mb.parts[0].fates)
	}
	of := mb.parts[1].fates
	got, err := fates.Decode(of)
	want := make([]fates.Code, 5*2*2)
	want[2*4+2], want[2*4+3] = fates.United, fates.LeftOut // row 3 of the step, layer 3
	if err != nil || !slices.Equal(got, want) || of.Way != 4 || of.Bundle != 9 {
		t.Errorf("%v, %v: %v", of, err, got)
	}
	r.begin(t.Context(), runsOf(mb), nil, time.Time{})
	y.fault = nil
	checkLayer(t, r, 6)
	if r.tellRows(mb); mb.parts[1].fates != nil {
		t.Errorf("the next step has %v", mb.parts[1].fates)
	}
}

// A block of other rows' fates is refused.
func TestBadFates(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		b.Fates = fates.Plain(fates.Shape{Rows: 1, Layers: 1, Slots: 2})
		return nil, y.deliver(b), true
	}
	if _, _, err := layer(t.Context(), r, 2); err == nil {
		t.Error("taken")
	}
}

// Rows of a prompt and of tokens are in the record of the token that they were computed for,
// with those beside them that had nothing; what is computed again is in none.
func TestLogFates(t *testing.T) {
	united := func(rows int) *pb.Fates {
		codes := make([]fates.Code, rows)
		codes[rows-1] = fates.United
		return fates.Encode(fates.Shape{Rows: rows, Layers: 1, Slots: 1}, codes)
	}
	s := &sequence{seq: &pb.Sequence{PromptIds: make([]uint32, 6)}, ids: make([]uint32, 6)}
	step := func(rows int, of *pb.Fates) { s.fates.add(s, &part{s: s, rows: rows, fates: of}); s.done += rows }
	rows := func(list []*pb.Fates) (out []uint32) {
		for _, f := range list {
			out = append(out, f.Rows)
		}
		return out
	}
	token := func() []*pb.Fates { s.ids = append(s.ids, 1); return s.fates.give() }

	step(2, nil)
	step(3, united(3))
	step(1, nil)
	if got := rows(token()); !slices.Equal(got, []uint32{2, 3, 1}) {
		t.Errorf("the prompt's rows: %v", got)
	}
	step(1, nil)
	if got := token(); got != nil {
		t.Errorf("a plain token's: %v", got)
	}
	s.done = 0 // the cache is lost
	step(5, united(5))
	step(3, united(3))
	if got := token(); !slices.Equal(rows(got), []uint32{1}) || len(got[0].Codes) == 0 {
		t.Errorf("after another prefill: %v", got)
	}
	step(1, &pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: make([]byte, maxFates+1)})
	if got := token(); len(got) != 1 || !got[0].Omitted || len(got[0].Codes) > 0 {
		t.Error("too long, and kept")
	}
}

// Whoever hears of steps hears of each dispatch, of every part of a layer.
func TestEachFunction(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	r.stats.steps = func(*ledger.Step) {}
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		b := twice(h)
		b.Functions = []*pb.FunctionTime{{Function: 7, Rows: 2}, {Function: 8, Rows: 1}}
		return []*pb.Block{b}, nil, true
	}
	for range 2 {
		checkLayer(t, r, 4)
	}
	if len(r.layers) != 2 || len(r.layers[0].Each) != 4 || r.layers[1].Each[2].Part != 2 {
		t.Errorf("%+v", r.layers)
	}
}
