package engine

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows of a prompt and of tokens are in the record of the token that they were computed for,
// with those beside them that had nothing; what is computed again is in none.
func TestLogFates(t *testing.T) {
	united := func(rows int) *pb.Fates {
		codes := make([]wire.FateCode, rows)
		codes[rows-1] = wire.FateUnited
		return wire.EncodeFates(wire.FatesShape{Rows: rows, Layers: 1, Slots: 1}, codes)
	}
	s := newSequence(&pb.Sequence{PromptIds: make([]uint32, 6)})
	step := func(rows int, of *pb.Fates) { s.fates.add(&s.content, rows, of, 600_000); s.done += rows }
	rows := func(list []*pb.Fates) (out []uint32) {
		for _, f := range list {
			out = append(out, f.Rows)
		}
		return out
	}
	token := func() []*pb.Fates { s.ids = append(s.ids, 1); return s.fates.give(&s.degraded) }

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
	step(5, nil)
	step(3, united(1)) // the last one's, which is new
	if got := token(); !slices.Equal(rows(got), []uint32{1}) || len(got[0].Codes) == 0 {
		t.Errorf("after another prefill: %v", got)
	}
	step(1, &pb.Fates{Rows: 1, Layers: 1, Slots: 1, Codes: make([]byte, maxFates+1)})
	if got := token(); len(got) != 1 || !got[0].Omitted || len(got[0].Codes) > 0 {
		t.Error("too long, and kept")
	}
	if want := (wire.FateCounter{Rows: 2, Tokens: 2, Lowest: 600_000}); s.degraded != want {
		t.Errorf("%+v was counted, want %+v", s.degraded, want)
	}
}

// However a prompt is cut, and whatever becomes of its rows, their fates fit into the room that a
// record has for them, since rows keep their experts where they might not.
func TestFatesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := wire.FatesShape{Layers: rapid.IntRange(1, 24).Draw(t, "layers"), Slots: rapid.IntRange(1, 8).Draw(t, "slots")}
		payload := rapid.Int64Range(1<<10, 16<<10).Draw(t, "payload")
		s := newSequence(&pb.Sequence{PromptIds: make([]uint32, 400)})
		s.slots, s.fateRoom = shape, roomOfFates(payload)
		for s.done < 400 {
			rows := min(rapid.IntRange(1, 100).Draw(t, "rows"), 400-s.done)
			var of *pb.Fates
			if !s.spared(rows) && rapid.IntRange(0, 3).Draw(t, "plain") > 0 {
				of = worst(wire.FatesShape{Rows: rows, Layers: shape.Layers, Slots: shape.Slots})
			}
			s.fates.add(&s.content, rows, of, 1)
			s.done += rows
		}
		s.ids = append(s.ids, 1)
		list := s.fates.give(&s.degraded)
		for _, f := range list {
			if f.Omitted {
				t.Fatalf("%d rows were omitted", f.Rows)
			}
		}
		if size := proto.Size(&pb.Token{Fates: list}); size > s.fateRoom+fatesRoom {
			t.Fatalf("%d bytes of fates, where %d are for them", size, s.fateRoom)
		}
	})
}

// worst are fates that take the most bytes.
func worst(s wire.FatesShape) *pb.Fates {
	codes := make([]wire.FateCode, s.Rows*s.Layers*s.Slots)
	for i := range codes {
		codes[i] = wire.FateCode(1 + i%2)
	}
	f := wire.EncodeFates(s, codes)
	f.Way, f.Bundle = 1000, 1<<63
	return f
}
