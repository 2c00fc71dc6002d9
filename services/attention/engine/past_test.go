package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// oneUnited are the fates of rows, the last slot of whose last row a united expert had.
func oneUnited(rows int) *pb.Fates {
	codes := make([]wire.FateCode, rows*2)
	codes[len(codes)-1] = wire.FateUnited
	return wire.EncodeFates(wire.FatesShape{Rows: rows, Layers: 1, Slots: 2}, codes)
}

// What is computed again replays what the log has of it, whatever else is in the step, and is marked
// where there is a stamp.
func TestPast(t *testing.T) {
	s := newSequence(&pb.Sequence{RequestId: "r", PromptIds: make([]uint32, 6)})
	s.slots = wire.FatesShape{Layers: 1, Slots: 2}
	for i, list := range [][]*pb.Fates{{wire.PlainFates(wire.FatesShape{Rows: 2, Layers: 1, Slots: 2}), oneUnited(4)}, nil, {oneUnited(1)}} {
		s.remember(&pb.Token{Index: int32(i), Fates: list})
		s.ids = append(s.ids, 7)
	}
	other := newSequence(&pb.Sequence{RequestId: "o", PromptIds: make([]uint32, 3)})
	for _, tc := range []struct {
		done, rows int
		want       string // first, rows and skipped of each replay
		runs       string // rows of each run, and whether they are of their own
	}{
		{0, 9, "[3 4 0] [8 1 0]", "1 false 6 true 2 true 1 false"},
		{3, 2, "[1 2 1]", "1 false 2 true"},
		{6, 2, "[2 1 0]", "1 false 2 true"},
		{8, 1, "", "1 false 1 false"},
	} {
		s.done = tc.done
		mb := &microbatch{parts: []part{{s: other, rows: 1, tokens: other.ids}, {s: s, rows: tc.rows, tokens: s.ids}}, order: &layer.Order{Stamp: &pb.Stamp{Version: 1}}}
		got, runs := "", ""
		for _, r := range mb.replays() {
			got += fmt.Sprintf(" [%d %d %d]", r.First, r.Rows, r.Skip)
		}
		for _, r := range runsOf(mb) {
			runs += fmt.Sprintf(" %d %v", len(r.Tokens), r.Own)
		}
		if got != pad(tc.want) || runs != pad(tc.runs) {
			t.Errorf("%d rows behind %d: replays%s, want %s; runs%s, want %s", tc.rows, tc.done, got, tc.want, runs, tc.runs)
		}
		mb.order = nil
		if slices.ContainsFunc(runsOf(mb), func(r *pb.Run) bool { return r.Own }) {
			t.Error("rows are marked though there is no stamp")
		}
	}
}

func pad(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// Fates that cannot be a token's are passed over.
func TestStrangePast(t *testing.T) {
	for name, list := range map[string][]*pb.Fates{
		"fewer rows":  {oneUnited(5)},
		"more rows":   {oneUnited(6), oneUnited(1)},
		"other slots": {wire.EncodeFates(wire.FatesShape{Rows: 6, Layers: 1, Slots: 1}, []wire.FateCode{0, 0, 0, 0, 0, 1})},
		"omitted":     {{Rows: 6, Layers: 1, Slots: 2, Omitted: true}},
		"garbage":     {{Rows: 6, Layers: 1, Slots: 2, Codes: []byte{9}}},
	} {
		s := newSequence(&pb.Sequence{PromptIds: make([]uint32, 6)})
		s.slots = wire.FatesShape{Layers: 1, Slots: 2}
		var why error
		s.strange = func(_ int32, err error) { why = err }
		if s.remember(&pb.Token{Fates: list}); !errors.Is(why, wire.ErrFates) || len(s.past.runs) > 0 {
			t.Errorf("%s: %v", name, why)
		}
	}
}

// Rows keep their experts that an encoder reads, that have scores, or whose fates would be too long.
func TestSpared(t *testing.T) {
	for name, s := range map[string]*Sequence{
		"":        newSequence(&pb.Sequence{PromptIds: make([]uint32, 6)}),
		"encoder": newSequence(&pb.Sequence{PromptIds: make([]uint32, 6), Source: 3}),
		"scores":  newSequence(&pb.Sequence{PromptIds: make([]uint32, 6), Score: "logprobs"}),
		"long":    {content: content{seq: &pb.Sequence{}}, fates: logFates{bytes: maxFates}},
	} {
		if got := s.spared(1); got != (name != "") {
			t.Errorf("%q: %v", name, got)
		}
	}
}
