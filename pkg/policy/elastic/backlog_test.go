package elastic

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// waits is an attention replica's word of how many requests wait there.
func waits(host string, number, requests uint64) *pb.LoadSample {
	return &pb.LoadSample{
		Version: schemas.Version, Model: testHash, Host: host, SpanMs: 250, Number: number, Source: pb.LoadSource_LOAD_SOURCE_ATTENTION, Waiting: proto.Uint64(requests),
	}
}

// What waits is the sum of what attention replicas say that are here, and have said it of late.
func TestBacklog(t *testing.T) {
	type word struct {
		host     string
		requests uint64
	}
	for _, tc := range []struct {
		name  string
		words []word
		here  map[string]bool // after that; nil: nobody says
		after float64         // seconds
		want  float64
	}{
		{"nobody tells", nil, nil, 0, 0},
		{"one", []word{{"attention-a", 5}}, nil, 0, 5},
		{"two", []word{{"attention-a", 5}, {"attention-b", 2}}, nil, 1, 7},
		{"the newest word", []word{{"attention-a", 5}, {"attention-a", 1}}, nil, 0, 1},
		{"none any more", []word{{"attention-a", 5}, {"attention-a", 0}}, nil, 0, 0},
		{"silence", []word{{"attention-a", 5}}, nil, 2.1, 0},
		{"death", []word{{"attention-a", 5}, {"attention-b", 2}}, map[string]bool{"attention-b": true}, 0, 2},
		{"death of the last", []word{{"attention-a", 5}}, map[string]bool{}, 0, 0},
		{"absurd", []word{{"attention-a", 5}, {"attention-a", 1e18}, {"attention-b", math.MaxUint64}}, nil, 0, 5},
	} {
		core, err := New(printed(), testModel(1, 4))
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range tc.words {
			_ = core.Observe(100, waits(w.host, uint64(i+1), w.requests)) // the absurd are refused
		}
		if tc.here != nil {
			core.Here(100, tc.here, nil)
		}
		core.Computed(100+tc.after, 0)
		if got, _ := core.Backlog(); got != tc.want {
			t.Errorf("%s: %v wait, want %v", tc.name, got, tc.want)
		}
	}
}

// The word of one who is not here counts for nothing, and is refused by name.
func TestBacklogOfStrangers(t *testing.T) {
	core, err := New(printed(), testModel(1, 4))
	if err != nil {
		t.Fatal(err)
	}
	core.Here(1, map[string]bool{"attention-a": true}, nil)
	var bad *SampleError
	if err := core.Observe(1, waits("attention-x", 1, 5)); !errors.As(err, &bad) || bad.Kind != BadSender || !strings.Contains(err.Error(), "attention-x") {
		t.Errorf("refused with %v", err)
	}
	if n, _ := core.Backlog(); n != 0 {
		t.Errorf("%v wait", n)
	}
}

// The more requests wait, the less a copy has to save to be loaded, and the longer it stays.
func TestBacklogCopies(t *testing.T) {
	for _, tc := range []struct {
		waiting uint64
		several bool
	}{{0, false}, {5, true}} {
		s := printed()
		s.Scaling, s.Takes, s.RowSeconds, s.Worth = "moeless+lean:gain=40", reads, 1e-3, 0
		if n, reason := shift(t, s, 2000, tc.waiting); n > 1 != tc.several {
			t.Errorf("%d wait: %d replicas; %s", tc.waiting, n, reason)
		}
	}
}
