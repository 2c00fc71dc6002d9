package testtrajectory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const width = 2

// Layers 0 and 2 have experts.
var shape = &wire.Shape{
	Identity: wire.Identity{Model: 7}, Hidden: width, Experts: 4, TopK: 2, MoE: []bool{true, false, true}, MaxRows: func() int { return 64 },
}

var bounds = Bounds{Vocab: 100, Positions: 50, Rows: 32, Bytes: 1 << 20}

func announcement(step uint64, runs ...*pb.Run) *pb.Step {
	return &pb.Step{Version: schemas.Version, Model: 7, Owner: "attention-1", Epoch: 9, Step: step, Microbatch: 1, Runs: runs}
}

func run(id string, first uint32, phase pb.Phase, tokens ...uint32) *pb.Run {
	return &pb.Run{Sequence: id, FirstPosition: first, Tokens: tokens, Phase: phase}
}

// hidden is rows of a step; their numbers say which layer and row they are.
func hidden(s *pb.Step, layer uint32, first int, phases ...pb.Phase) *pb.Hidden {
	h := &pb.Hidden{Key: &pb.Key{
		Version: s.Version, Model: s.Model, Owner: s.Owner, Epoch: s.Epoch, Step: s.Step, Microbatch: s.Microbatch,
		Layer: layer, Part: uint32(first), Rows: uint32(len(phases)),
	}}
	var x []float32
	for i, p := range phases {
		h.Phases = append(h.Phases, &pb.PhaseRange{Phase: p, Rows: 1})
		x = append(x, float32(layer), float32(first+i))
	}
	h.Tensor = tensor.Encode(tensor.F32, x, width, nil)
	return h
}

// fataler is a test, a property or a fuzz target.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func encode(t fataler, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// take gives a reader a message of either kind.
func take(t fataler, r *Reader, m proto.Message) ([]Token, error) {
	t.Helper()
	if s, ok := m.(*pb.Step); ok {
		return r.Step(encode(t, s))
	}
	return r.Hidden(encode(t, m))
}

const (
	prefill = pb.Phase_PHASE_PREFILL
	decode  = pb.Phase_PHASE_DECODE
)

// drawStep draws a step's runs, and its messages.
func drawStep(t *rapid.T, number uint64) (s *pb.Step, messages []proto.Message) {
	s = announcement(number)
	var phases []pb.Phase
	for i := range rapid.IntRange(1, 4).Draw(t, "runs") {
		p := rapid.SampledFrom([]pb.Phase{prefill, decode}).Draw(t, "phase")
		tokens := rapid.SliceOfN(rapid.Uint32Range(0, 99), 1, 5).Draw(t, "tokens")
		s.Runs = append(s.Runs, run(fmt.Sprint("r", i), rapid.Uint32Range(0, 40).Draw(t, "first"), p, tokens...))
		phases = append(phases, slices.Repeat([]pb.Phase{p}, len(tokens))...)
	}
	messages = append(messages, s)
	for _, layer := range []uint32{0, 2} {
		for first := 0; first < len(phases); {
			n := rapid.IntRange(1, len(phases)-first).Draw(t, "part")
			messages = append(messages, hidden(s, layer, first, phases[first:first+n]...))
			first += n
		}
	}
	return s, messages
}

// In whatever order and however often messages come, each step's tokens are
// given once, with their rows; a step that has lost a message is not.
func TestReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, got := New(shape, bounds), map[int][]Token{}
		var all []proto.Message
		lost := map[int]bool{}
		var steps []*pb.Step
		for i := range rapid.IntRange(1, 3).Draw(t, "steps") {
			s, messages := drawStep(t, uint64(i))
			if lost[i] = rapid.Bool().Draw(t, "lossy"); lost[i] {
				at := rapid.IntRange(0, len(messages)-1).Draw(t, "lost")
				messages = slices.Delete(messages, at, at+1)
			} else {
				messages = append(messages, messages[0], messages[len(messages)-1])
			}
			steps, all = append(steps, s), append(all, messages...)
		}
		for _, m := range rapid.Permutation(all).Draw(t, "order") {
			tokens, err := take(t, r, m)
			if err != nil {
				t.Fatal(err)
			}
			if tokens != nil {
				i := stepOf(m)
				if got[i] != nil {
					t.Fatalf("step %d is whole twice", i)
				}
				got[i] = tokens
			}
		}
		for i, s := range steps {
			if (got[i] == nil) != lost[i] {
				t.Fatalf("step %d: %d tokens, lost %v", i, len(got[i]), lost[i])
			}
			if got[i] != nil {
				checkTokens(t, s, got[i])
			}
		}
	})
}

func stepOf(m proto.Message) int {
	switch m := m.(type) {
	case *pb.Step:
		return int(m.Step)
	case *pb.Hidden:
		return int(m.Key.Step)
	}
	return -1
}

func checkTokens(t *rapid.T, s *pb.Step, got []Token) {
	row := 0
	for _, run := range s.Runs {
		for i, id := range run.Tokens {
			k := got[row]
			if k.Sequence != run.Sequence || k.Position != int(run.FirstPosition)+i || k.ID != id || k.Phase != run.Phase {
				t.Fatalf("row %d is %v, want token %d of %v", row, k, i, run)
			}
			if !slices.Equal(k.Rows[0], []float32{0, float32(row)}) || k.Rows[1] != nil || !slices.Equal(k.Rows[2], []float32{2, float32(row)}) {
				t.Fatalf("row %d has %v", row, k.Rows)
			}
			row++
		}
	}
	if len(got) != row {
		t.Fatalf("%d tokens, want %d", len(got), row)
	}
}

// What contradicts itself, the model, the bounds or what came before is refused
// by name, and the step is as good as without it.
func TestRefused(t *testing.T) {
	good := announcement(1, run("a", 3, prefill, 5, 6), run("b", 9, decode, 7))
	rows := func(change func(*pb.Hidden)) *pb.Hidden {
		h := hidden(good, 0, 0, prefill, prefill, decode)
		change(h)
		return h
	}
	step := func(change func(*pb.Step)) *pb.Step { s := proto.CloneOf(good); change(s); return s }
	for _, tc := range []struct {
		name string
		m    proto.Message
		says string
	}{
		{"another model", step(func(s *pb.Step) { s.Model++ }), "--model"},
		{"another version", step(func(s *pb.Step) { s.Version++ }), "version"},
		{"no owner", step(func(s *pb.Step) { s.Owner = "a.b" }), "owner"},
		{"no rows", step(func(s *pb.Step) { s.Runs = nil }), "no rows"},
		{"an empty run", step(func(s *pb.Step) { s.Runs[0].Tokens = nil }), "0 rows"},
		{"no phase", step(func(s *pb.Step) { s.Runs[0].Phase = 0 }), "phase 0"},
		{"no request", step(func(s *pb.Step) { s.Runs[0].Sequence = "" }), "request_id"},
		{"a long tenant", step(func(s *pb.Step) { s.Runs[0].Tenant = strings.Repeat("x", 300) }), "tenant"},
		{"a position outside", step(func(s *pb.Step) { s.Runs[0].FirstPosition = 49 }), "positions"},
		{"a huge position", step(func(s *pb.Step) { s.Runs[0].FirstPosition = 1<<32 - 1 }), "positions"},
		{"a token outside", step(func(s *pb.Step) { s.Runs[0].Tokens[0] = 100 }), "token 100"},
		{"too many rows", step(func(s *pb.Step) { s.Runs[0].Tokens = make([]uint32, 33) }), "more than 32 rows"},
		{"announced otherwise", step(func(s *pb.Step) { s.Runs[1].Tokens[0]++ }), "other rows"},
		{"rows of another model", rows(func(h *pb.Hidden) { h.Key.Model++ }), "--model"},
		{"phases of fewer", rows(func(h *pb.Hidden) { h.Phases = h.Phases[:2] }), "phases of 2"},
		{"other phases", rows(func(h *pb.Hidden) { h.Phases[2].Phase = prefill }), "announced as"},
		{"no such layer", rows(func(h *pb.Hidden) { h.Key.Layer = 1 }), "no experts"},
		{"more than announced", hidden(good, 0, 1, prefill, decode, decode), "announced with 3"},
		{"a part far outside", rows(func(h *pb.Hidden) { h.Key.Part = 1<<32 - 1 }), "at most 32"},
		{"overlapping parts", hidden(good, 2, 1, prefill, decode), "partly here"},
	} {
		r := New(shape, bounds)
		for _, m := range []proto.Message{good, hidden(good, 2, 0, prefill, prefill)} {
			if _, err := take(t, r, m); err != nil {
				t.Fatal(err)
			}
		}
		tokens, err := take(t, r, tc.m)
		var mismatch *wire.IdentityError
		if tokens != nil || err == nil || !strings.Contains(err.Error(), tc.says) || !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &mismatch) {
			t.Errorf("%s: %v, %v; want %q", tc.name, tokens, err, tc.says)
		}
		if _, err := take(t, r, hidden(good, 2, 2, decode)); err != nil {
			t.Errorf("after %s: %v", tc.name, err)
		}
		if tokens, err := take(t, r, hidden(good, 0, 0, prefill, prefill, decode)); len(tokens) != 3 || err != nil {
			t.Errorf("after %s: %d tokens, %v", tc.name, len(tokens), err)
		}
	}
}

// An announcement that comes last is held against the rows that are here.
func TestAnnouncedLate(t *testing.T) {
	s := announcement(1, run("a", 0, prefill, 5))
	for says, h := range map[string]*pb.Hidden{"announced with 1": hidden(s, 0, 0, prefill, prefill), "announced as": hidden(s, 0, 0, decode)} {
		r := New(shape, bounds)
		if _, err := take(t, r, h); err != nil {
			t.Fatal(err)
		}
		if _, err := take(t, r, s); !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Steps that never become whole are dropped, the oldest first; the memory of
// whole ones is bounded as well.
func TestBounds(t *testing.T) {
	b := bounds
	b.Bytes = 20 << 10
	r := New(shape, b)
	const steps = 3000
	for i := range uint64(steps) {
		s := announcement(i, run("a", 0, prefill, 5, 6))
		for _, m := range []proto.Message{s, hidden(s, 0, 0, prefill, prefill)} {
			if _, err := take(t, r, m); err != nil {
				t.Fatal(err)
			}
			if r.bytes > b.Bytes {
				t.Fatalf("%d bytes are kept, %d allowed", r.bytes, b.Bytes)
			}
		}
	}
	if len(r.open) == 0 || len(r.open)+r.Dropped() != steps || r.byAge.Len() != len(r.open) {
		t.Errorf("%d steps are open, %d were dropped of %d", len(r.open), r.Dropped(), steps)
	}
	for i := range uint64(2 * maxDone) {
		s := announcement(i+steps, run("a", 0, prefill, 5))
		for _, m := range []proto.Message{s, hidden(s, 0, 0, prefill), hidden(s, 2, 0, prefill)} {
			if _, err := take(t, r, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(r.done) != maxDone || len(r.doneOrder) != maxDone {
		t.Errorf("%d and %d whole steps are remembered", len(r.done), len(r.doneOrder))
	}
}

// Bytes from outside are refused or kept within the bound, and whole steps have all rows.
func FuzzReader(f *testing.F) {
	s := announcement(1, run("a", 3, prefill, 5, 6), run("b", 9, decode, 7))
	f.Add(encode(f, s), encode(f, hidden(s, 0, 0, prefill, prefill, decode)), encode(f, hidden(s, 2, 0, prefill, prefill, decode)))
	f.Add(encode(f, s), encode(f, hidden(s, 2, 1, prefill, decode)), []byte{})
	f.Fuzz(func(t *testing.T, step, one, other []byte) {
		r := New(shape, bounds)
		for range 2 {
			for _, in := range []func() ([]Token, error){
				func() ([]Token, error) { return r.Hidden(one) }, func() ([]Token, error) { return r.Step(step) },
				func() ([]Token, error) { return r.Hidden(other) },
			} {
				tokens, err := in()
				var mismatch *wire.IdentityError
				if err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &mismatch) {
					t.Errorf("%v has no class", err)
				}
				for _, k := range tokens {
					if len(k.Rows) != 3 || len(k.Rows[0]) != width || len(k.Rows[2]) != width {
						t.Errorf("rows %v", k.Rows)
					}
				}
			}
		}
		if r.bytes > bounds.Bytes {
			t.Errorf("%d bytes are kept", r.bytes)
		}
	})
}
