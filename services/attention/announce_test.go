package attention

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// partOf is rows of a sequence: so many of its tokens are the prompt's, and so many done.
func partOf(prompt, generated, done, rows int) part {
	s := newSequence(&pb.Sequence{RequestId: "r", PromptIds: make([]uint32, prompt)})
	for i := range prompt + generated {
		s.ids = append(s.ids[:i], uint32(10+i))
	}
	s.done = done
	return part{s: s, rows: rows}
}

// Runs have a phase each, and together the rows of the microbatch in their order.
func TestRuns(t *testing.T) {
	for _, tc := range []struct {
		name         string
		parts        []part
		runs, phases string
	}{
		{"prompt", []part{partOf(3, 0, 0, 3)}, "prefill 0 [10 11 12]", "3 prefill"},
		{"chunk", []part{partOf(9, 0, 4, 2)}, "prefill 4 [14 15]", "2 prefill"},
		{"decode", []part{partOf(3, 2, 4, 1)}, "decode 4 [14]", "1 decode"},
		{"taken over", []part{partOf(2, 3, 0, 5)}, "prefill 0 [10 11], decode 2 [12 13 14]", "2 prefill, 3 decode"},
		{"taken over, behind the prompt", []part{partOf(2, 3, 3, 2)}, "decode 3 [13 14]", "2 decode"},
		{"batch", []part{partOf(1, 1, 1, 1), partOf(2, 1, 2, 1), partOf(4, 0, 1, 2)},
			"decode 1 [11], decode 2 [12], prefill 1 [11 12]", "2 decode, 2 prefill"},
	} {
		runs := runsOf(&microbatch{parts: tc.parts})
		var said, phases []string
		for _, r := range runs {
			said = append(said, fmt.Sprintf("%s %d %v", phase(r.Phase), r.FirstPosition, r.Tokens))
		}
		for _, p := range phasesOf(runs) {
			phases = append(phases, fmt.Sprintf("%d %s", p.Rows, phase(p.Phase)))
		}
		if got := strings.Join(said, ", "); got != tc.runs {
			t.Errorf("%s: runs %s, want %s", tc.name, got, tc.runs)
		}
		if got := strings.Join(phases, ", "); got != tc.phases {
			t.Errorf("%s: phases %s, want %s", tc.name, got, tc.phases)
		}
	}
}

func phase(p pb.Phase) string { return strings.ToLower(strings.TrimPrefix(p.String(), "PHASE_")) }

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

// A step is announced once, before its rows travel; they carry its number,
// phases and stamp at every layer. That it cannot be announced holds up nothing.
func TestAnnounce(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	var steps []*pb.Step
	var fault error
	r.announce = func(_ context.Context, s *pb.Step) error { steps = append(steps, s); return fault }
	stamp := &pb.Stamp{}
	mb := &microbatch{parts: []part{partOf(1, 1, 1, 1), partOf(4, 0, 0, 3)}}
	for _, fault = range []error{nil, errors.New("too large")} {
		sent := len(y.sent)
		r.begin(t.Context(), runsOf(mb), stamp, time.Time{})
		if len(y.sent) != sent {
			t.Error("rows went out before their step was announced")
		}
		checkLayer(t, r, 4)
		checkLayer(t, r, 4)
	}
	if len(steps) != 2 || len(y.sent) != 8 || steps[1].Step != steps[0].Step+1 {
		t.Fatalf("%d announcements, %d messages: %v", len(steps), len(y.sent), steps)
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
	if n := testkit.Count(t, r.stats.metrics.UnannouncedSteps); n != 1 {
		t.Errorf("%v unannounced steps are counted, want 1", n)
	}
}

// Whoever sees all rows gets each once, however often they are issued.
func TestCopyRows(t *testing.T) {
	y, r := newFakeLayer(t, 2)
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
		return []*pb.Block{{Key: h.Key, Error: &pb.Error{Code: wire.Elsewhere}}}, nil, h.Key.Attempt == 0
	}
	rows := 0
	r.copyRows = func(_ context.Context, h *pb.Hidden) { rows += int(h.Key.Rows) }
	checkLayer(t, r, 4)
	if len(y.sent) != 4 || rows != 4 {
		t.Errorf("%d messages were sent, and %d of 4 rows copied", len(y.sent), rows)
	}
}
