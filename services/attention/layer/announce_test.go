package layer

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Each row has its phase in whatever parts the rows travel.
func TestCutPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*pb.PhaseRange
		for range rapid.IntRange(1, 5).Draw(t, "ranges") {
			all = append(all, &pb.PhaseRange{Phase: pb.Phase(rapid.IntRange(1, 2).Draw(t, "phase")), Rows: rapid.Uint32Range(1, 4).Draw(t, "rows")})
		}
		want := unfold(all)
		first := rapid.IntRange(0, len(want)-1).Draw(t, "first")
		rows := rapid.IntRange(1, len(want)-first).Draw(t, "n")
		if got := unfold(cutPhases(all, first, rows)); fmt.Sprint(got) != fmt.Sprint(want[first:first+rows]) {
			t.Fatalf("rows %d to %d of %v are %v", first, first+rows, want, got)
		}
	})
}

// unfold is the phase of each row.
func unfold(ranges []*pb.PhaseRange) (rows []pb.Phase) {
	for _, p := range ranges {
		for range p.Rows {
			rows = append(rows, p.Phase)
		}
	}
	return rows
}

// someRows are a generated token's row, and three of a prompt's.
var someRows = []*pb.Run{
	{Sequence: "r", FirstPosition: 1, Tokens: []uint32{11}, Phase: pb.Phase_PHASE_DECODE},
	{Sequence: "s", Tokens: []uint32{10, 11, 12}, Phase: pb.Phase_PHASE_PREFILL},
}

// A step is announced once, before its rows travel; they carry its number,
// phases and stamp at every layer. That it cannot be announced holds up nothing.
func TestAnnounce(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.conn.steps = nil
	stamp := &pb.Stamp{}
	order := &Order{Stamp: stamp}
	for _, y.conn.err = range []error{nil, errors.New("too large")} {
		sent := len(y.sent)
		r.Begin(t.Context(), Step{Runs: someRows, Order: order})
		if len(y.sent) != sent {
			t.Error("rows went out before their step was announced")
		}
		checkLayer(t, r, 4)
		checkLayer(t, r, 4)
	}
	steps := y.conn.steps
	if len(steps) != 2 || len(y.sent) != 8 || steps[1].Step != steps[0].Step+1 || y.conn.copied != 0 {
		t.Fatalf("%d announcements, %d messages, %d rows copied: %v", len(steps), len(y.sent), y.conn.copied, steps)
	}
	for i, h := range y.sent {
		s := steps[i/4]
		if h.Key.Step != s.Step || h.Key.Microbatch != s.Microbatch || h.Key.Owner != s.Owner || h.Key.Epoch != s.Epoch || !proto.Equal(h.Stamp, stamp) {
			t.Errorf("message %d has key %v, stamp %v; announced was %v", i, h.Key, h.Stamp, s)
		}
		if got, want := unfold(h.Phases), unfold(phasesOf(s.Runs))[h.Key.Part:][:2]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("message %d has phases %v, want %v", i, got, want)
		}
	}
	if n := testkit.Count(t, r.counts.metrics.UnannouncedSteps); n != 1 {
		t.Errorf("%v unannounced steps are counted, want 1", n)
	}
}

// Runs of one phase beside each other are one range.
func TestPhases(t *testing.T) {
	prefill := &pb.Run{Tokens: make([]uint32, 2), Phase: pb.Phase_PHASE_PREFILL}
	decode := &pb.Run{Tokens: make([]uint32, 1), Phase: pb.Phase_PHASE_DECODE}
	got := phasesOf([]*pb.Run{decode, decode, prefill, prefill, decode})
	want := []*pb.PhaseRange{{Phase: decode.Phase, Rows: 2}, {Phase: prefill.Phase, Rows: 4}, {Phase: decode.Phase, Rows: 1}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whoever sees all rows gets each once, however often they are issued.
func TestCopyRows(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		return []*pb.Block{{Key: h.Key, Error: &pb.Error{Code: wire.Elsewhere}}}, nil, h.Key.Attempt == 0
	}
	y.x.allRows = true
	checkLayer(t, r, 4)
	if len(y.sent) != 4 || y.conn.copied != 4 {
		t.Errorf("%d messages were sent, and %d of 4 rows copied", len(y.sent), y.conn.copied)
	}
}
