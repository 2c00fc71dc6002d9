package loads

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var limits = claims.Limits{Model: 7, Layers: 4, Experts: 8, Hosts: 2, Entries: 6, TopK: 2, MoE: []bool{true, true, true, false}}

func sample() *pb.LoadSample {
	return &pb.LoadSample{Version: schemas.Version, Model: 7, Host: "expert-1", Layer: 1, SpanMs: 1000, Expert: []uint32{0, 5}, Rows: []uint64{3, 4}, Total: []uint64{3, 40}}
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
	if got := c.Take(time.Second, true); got != nil {
		t.Errorf("%d samples of nothing", len(got))
	}
	c.Add(1, []uint32{5, 0, 5})
	c.Add(2, []uint32{7})
	got := c.Take(1500*time.Millisecond, false)
	want := &pb.LoadSample{Version: schemas.Version, Model: 7, Host: "expert-1", Layer: 1, SpanMs: 1500, Expert: []uint32{0, 5}, Rows: []uint64{1, 2}, Total: []uint64{1, 2}}
	if len(got) != 2 || !proto.Equal(got[0], want) || got[1].Layer != 2 {
		t.Errorf("got %v", got)
	}
	if got := c.Take(0, false); got != nil {
		t.Errorf("counted twice: %v", got)
	}
	c.Add(1, []uint32{0})
	want.SpanMs, want.Rows, want.Total = 1, []uint64{1, 0}, []uint64{2, 2}
	if got := c.Take(0, true); len(got) != 2 || !proto.Equal(got[0], want) || got[1].Total[0] != 1 || got[1].Rows[0] != 0 {
		t.Errorf("all totals: got %v", got)
	}
	c.Add(1, []uint32{5})
	if got := c.Take(0, false); len(got) != 1 || !slices.Equal(got[0].Expert, []uint32{5}) || got[0].Rows[0] != 1 || got[0].Total[0] != 3 {
		t.Errorf("after all totals: got %v", got)
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
		{"nothing", func(s *pb.LoadSample) { s.Expert, s.Rows, s.Total = nil, nil, nil }, "0 experts"},
		{"steps of a host", func(s *pb.LoadSample) { s.Steps = []*pb.StepLoad{{}} }, "1 steps of a host"},
		{"layer without experts", func(s *pb.LoadSample) { s.Layer = 3 }, "layer 3 has no experts"},
		{"lengths", func(s *pb.LoadSample) { s.Rows = s.Rows[:1] }, "2 experts with 1"},
		{"expert", func(s *pb.LoadSample) { s.Expert[1] = 8 }, "expert 8"},
		{"repeated", func(s *pb.LoadSample) { s.Expert[1] = 0 }, "expert 0 after expert 0"},
		{"descending", func(s *pb.LoadSample) { s.Expert[0] = 6 }, "expert 5 after expert 6"},
		{"lengths of totals", func(s *pb.LoadSample) { s.Total = s.Total[:1] }, "and 1 totals"},
		{"no rows lately", func(s *pb.LoadSample) { s.Rows[0] = 0 }, ""},
		{"too many rows", func(s *pb.LoadSample) { s.Rows[0] = 1 << 63 }, "rows of expert 0"},
		{"no total", func(s *pb.LoadSample) { s.Rows[0], s.Total[0] = 0, 0 }, "a total of 0 for expert 0"},
		{"total below rows", func(s *pb.LoadSample) { s.Total[0] = 2 }, "a total of 2 for expert 0"},
		{"largest total", func(s *pb.LoadSample) { s.Total[0] = 1 << 53 }, ""},
		{"too large a total", func(s *pb.LoadSample) { s.Total[0] = 1<<53 + 1 }, "for expert 0"},
	} {
		s := sample()
		tt.change(s)
		err := limits.Check(s)
		if tt.problem == "" && err != nil || tt.problem != "" && (!errors.Is(err, claims.ErrSample) || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
	}
}

// told is a sample of one expert of layer 0.
func told(host string, expert uint32, rows, total uint64) *pb.LoadSample {
	s := sample()
	s.Host, s.Layer, s.Expert, s.Rows, s.Total = host, 0, []uint32{expert}, []uint64{rows}, []uint64{total}
	return s
}

// equal compares what tallies say.
func equal(got, want []Layer) bool {
	return slices.EqualFunc(got, want, func(a, b Layer) bool {
		return a.Layer == b.Layer && slices.Equal(a.Rows, b.Rows) && slices.Equal(a.Heard, b.Heard)
	})
}

// The newest totals count, whatever was lost before them.
func TestTally(t *testing.T) {
	for _, tt := range []struct {
		name    string
		samples []*pb.LoadSample
		want    Layer
	}{
		{"one", []*pb.LoadSample{told("a", 1, 2, 5)}, Layer{0, []uint64{0, 5}, []uint64{0, 2}}},
		{"two hosts", []*pb.LoadSample{told("a", 1, 2, 5), told("b", 0, 1, 1), told("b", 1, 0, 7)}, Layer{0, []uint64{1, 12}, []uint64{1, 2}}},
		{"again", []*pb.LoadSample{told("a", 0, 2, 5), told("a", 0, 0, 5)}, Layer{0, []uint64{5}, []uint64{2}}},
		{"lost between", []*pb.LoadSample{told("a", 0, 2, 5), told("a", 0, 1, 9)}, Layer{0, []uint64{9}, []uint64{6}}},
		{"after a lie", []*pb.LoadSample{told("a", 0, 0, 1<<53), told("a", 0, 1, 9)}, Layer{0, []uint64{9}, []uint64{0}}},
	} {
		tally := NewTally(limits)
		for _, s := range tt.samples {
			if err := tally.Add(body(t, s)); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if got := tally.Layers(); !equal(got, []Layer{tt.want}) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What is more than a tally keeps is refused by name and changes nothing.
func TestTallyRoom(t *testing.T) {
	tally := NewTally(limits)
	for i, tt := range []struct {
		sample  *pb.LoadSample
		problem string // empty: none
	}{
		{told("a", 0, 1, 1), ""}, {told("b", 0, 1, 1), ""}, {told("c", 0, 1, 1), `host "c" is one more than 2`},
		{told("a", 1, 1, 1), ""}, {told("a", 2, 1, 1), ""}, {told("a", 3, 1, 1), ""}, {told("a", 4, 1, 1), ""},
		{told("a", 5, 1, 1), `1 experts of layer 0 on host "a" are more than the 6`},
		{told("a", 4, 1, 2), ""},
	} {
		err := tally.Add(body(t, tt.sample))
		if tt.problem == "" && err != nil || tt.problem != "" && (!errors.Is(err, claims.ErrSample) || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("sample %d: %v, want %q", i, err, tt.problem)
		}
	}
	if err := tally.Add([]byte("{")); !errors.Is(err, claims.ErrSample) {
		t.Errorf("JSON: %v", err)
	}
	rows := []uint64{2, 1, 1, 1, 2}
	if got := tally.Layers(); !equal(got, []Layer{{0, rows, rows}}) || tally.Refused() != 3 {
		t.Errorf("got %v with %d refused", got, tally.Refused())
	}
	if a, c := tally.Rows("a"), tally.Rows("c"); a != 6 || c != 0 {
		t.Errorf("a has %d rows and c %d", a, c)
	}
}

// FuzzTally wants no messages to get more than the limits allow, and sums that
// are those of the newest totals.
func FuzzTally(f *testing.F) {
	f.Add(body(f, sample()), body(f, told("expert-2", 7, 0, 1<<53)))
	f.Add(body(f, sample()), body(f, sample()))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		tally := NewTally(limits)
		for _, b := range [][]byte{first, second} {
			before, refused := tally.Layers(), tally.Refused()
			if err := tally.Add(b); err != nil && (tally.Refused() != refused+1 || !equal(tally.Layers(), before)) {
				t.Errorf("refused with %v and counted: %v", err, tally.Layers())
			}
		}
		checkBounds(t, tally)
	})
}

func checkBounds(t *testing.T, tally *Tally) {
	t.Helper()
	sum := uint64(0)
	for _, l := range tally.Layers() {
		if l.Layer >= limits.Layers || len(l.Rows) > limits.Experts || len(l.Rows) != len(l.Heard) {
			t.Errorf("layer %d has %d experts, %d heard", l.Layer, len(l.Rows), len(l.Heard))
		}
		for _, n := range l.Rows {
			sum += n
		}
	}
	for _, n := range tally.totals {
		sum -= n
	}
	if sum != 0 || len(tally.totals) > limits.Entries || len(tally.hosts) > limits.Hosts {
		t.Errorf("%d totals of %d hosts, the sums differ from them by %d", len(tally.totals), len(tally.hosts), sum)
	}
}
