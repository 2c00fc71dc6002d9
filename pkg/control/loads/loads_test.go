package loads

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var limits = Limits{Model: 7, Layers: 4, Experts: 8, Hosts: 2}

func sample() *pb.LoadSample {
	return &pb.LoadSample{Version: schemas.Version, Model: 7, Host: "expert-1", Layer: 1, SpanMs: 1000, Expert: []uint32{0, 5}, Rows: []uint64{3, 4}}
}

func body(t testing.TB, s *pb.LoadSample) []byte {
	t.Helper()
	b, err := proto.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCounter(t *testing.T) {
	c := NewCounter(7, "expert-1", []bool{false, true, true}, 8)
	if got := c.Take(time.Second); got != nil {
		t.Errorf("%d samples of nothing", len(got))
	}
	c.Add(1, []uint32{5, 0, 5})
	c.Add(2, []uint32{7})
	got := c.Take(1500 * time.Millisecond)
	want := &pb.LoadSample{Version: schemas.Version, Model: 7, Host: "expert-1", Layer: 1, SpanMs: 1500, Expert: []uint32{0, 5}, Rows: []uint64{1, 2}}
	if len(got) != 2 || !proto.Equal(got[0], want) || got[1].Layer != 2 {
		t.Errorf("got %v", got)
	}
	if got := c.Take(0); got != nil {
		t.Errorf("counted twice: %v", got)
	}
	c.Add(1, []uint32{0})
	if got := c.Take(0); got[0].SpanMs != 1 {
		t.Errorf("a span of %d ms", got[0].SpanMs)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*pb.LoadSample)
		problem string // empty: none
	}{
		{"good", func(*pb.LoadSample) {}, ""},
		{"version", func(s *pb.LoadSample) { s.Version++ }, "version"},
		{"model", func(s *pb.LoadSample) { s.Model++ }, "model"},
		{"no host", func(s *pb.LoadSample) { s.Host = "" }, "host"},
		{"host of two tokens", func(s *pb.LoadSample) { s.Host = "a.b" }, "host"},
		{"layer", func(s *pb.LoadSample) { s.Layer = 4 }, "layer 4"},
		{"span", func(s *pb.LoadSample) { s.SpanMs = 0 }, "span"},
		{"no experts", func(s *pb.LoadSample) { s.Expert, s.Rows = nil, nil }, "0 experts"},
		{"lengths", func(s *pb.LoadSample) { s.Rows = s.Rows[:1] }, "2 experts with 1"},
		{"expert", func(s *pb.LoadSample) { s.Expert[1] = 8 }, "expert 8"},
		{"repeated", func(s *pb.LoadSample) { s.Expert[1] = 0 }, "expert 0 after expert 0"},
		{"descending", func(s *pb.LoadSample) { s.Expert[0] = 6 }, "expert 5 after expert 6"},
		{"no rows", func(s *pb.LoadSample) { s.Rows[0] = 0 }, "0 rows"},
		{"too many rows", func(s *pb.LoadSample) { s.Rows[0] = 1 << 63 }, "rows of expert 0"},
	} {
		s := sample()
		tt.change(s)
		err := limits.Check(s)
		if tt.problem == "" && err != nil || tt.problem != "" && (!errors.Is(err, ErrSample) || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
	}
}

func TestTally(t *testing.T) {
	tally := NewTally(limits)
	for i := range 3 {
		s := sample()
		s.Host = fmt.Sprintf("expert-%d", i) // the third is one too many
		if err := tally.Add(body(t, s)); (err != nil) != (i == 2) {
			t.Errorf("host %d: %v", i, err)
		}
	}
	s := sample()
	s.Layer, s.Expert = 0, []uint32{1, 2}
	if err := tally.Add(body(t, s)); err != nil {
		t.Error(err)
	}
	if err := tally.Add([]byte("{")); !errors.Is(err, ErrSample) {
		t.Errorf("JSON: %v", err)
	}
	want := []Layer{{0, []uint64{0, 3, 4}}, {1, []uint64{6, 0, 0, 0, 0, 8}}}
	if got := tally.Layers(); !slices.EqualFunc(got, want, func(a, b Layer) bool { return a.Layer == b.Layer && slices.Equal(a.Rows, b.Rows) }) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := tally.Refused(); n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
}

// FuzzTally wants no message to get more than its limits allow.
func FuzzTally(f *testing.F) {
	f.Add(body(f, sample()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		tally := NewTally(limits)
		err := tally.Add(b)
		if err != nil && (tally.Refused() != 1 || len(tally.Layers()) != 0) {
			t.Errorf("refused with %v and counted: %v", err, tally.Layers())
		}
		for _, l := range tally.Layers() {
			if l.Layer >= limits.Layers || len(l.Rows) > limits.Experts {
				t.Errorf("layer %d has %d experts", l.Layer, len(l.Rows))
			}
		}
	})
}
