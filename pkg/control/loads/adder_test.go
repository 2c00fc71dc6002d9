package loads

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func gateTold(layer uint32, steps ...*pb.StepLoad) *pb.LoadSample {
	return &pb.LoadSample{Version: schemas.Version, Model: 7, Host: "gate-1", Layer: layer, SpanMs: 1, Source: pb.LoadSource_LOAD_SOURCE_GATE, Steps: steps}
}

func counted(rows uint32, experts ...uint32) *pb.StepLoad {
	s := &pb.StepLoad{Owner: "attention-1", Rows: rows, Expert: experts}
	for range experts {
		s.Count = append(s.Count, rows)
	}
	return s
}

func TestAdder(t *testing.T) {
	to := &testdeployment.LoadSink{}
	a := NewAdder(to.Send)
	defer a.Close()
	probe := counted(1, 4)
	probe.Probe = true
	a.Send(gateTold(2, counted(3, 0, 5)))
	a.Send(gateTold(2, counted(2, 5), probe))
	a.Send(gateTold(2, counted(1, 7)))
	a.Send(gateTold(3, counted(1, 1)))
	a.Send(&pb.LoadSample{Host: "host-1", Expert: []uint32{1}})
	if now := to.Take(); len(now) != 1 || now[0].Host != "host-1" {
		t.Fatalf("a host's sample waits: %v", now)
	}
	a.Flush()
	all := to.Take()
	slices.SortFunc(all, func(a, b *pb.LoadSample) int { return int(a.Layer) - int(b.Layer) })
	var got []string
	for _, s := range all {
		for _, step := range s.Steps {
			got = append(got, fmt.Sprintf("layer %d: %d rows in %d, %v %v, probe %v", s.Layer, step.Rows, step.Parts, step.Expert, step.Count, step.Probe))
		}
	}
	want := []string{
		"layer 2: 3 rows in 0, [0 5] [3 3], probe false", "layer 2: 1 rows in 0, [4] [1], probe true",
		"layer 2: 3 rows in 2, [5 7] [2 1], probe false", "layer 3: 1 rows in 0, [1] [1], probe false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An interval ends by itself; after the end nothing waits.
func TestAdderEnds(t *testing.T) {
	to := &testdeployment.LoadSink{}
	a := NewAdder(to.Send)
	a.Send(gateTold(2, counted(1, 1)))
	testkit.Eventually(t, "a sample", func() bool { return len(to.Take()) == 1 })
	a.Send(gateTold(2, counted(1, 1)))
	a.Close()
	a.Send(gateTold(2, counted(1, 1)))
	if n := len(to.Take()); n != 2 {
		t.Errorf("%d samples after the end, want 2", n)
	}
}

// Readers believe every sample, and all rows of all microbatches are in them.
func TestAdderAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := &testdeployment.LoadSink{}
		a := NewAdder(to.Send)
		limits := claims.Limits{Model: 7, Layers: 3, Experts: 8, TopK: 1}
		want, got := 0, 0
		for range rapid.IntRange(1, 3*mostParts/2).Draw(t, "steps") {
			rows := rapid.Uint32Range(1, claims.MaxStepRows).Draw(t, "rows")
			a.Send(gateTold(1, counted(rows, rapid.Uint32Range(0, 7).Draw(t, "expert"))))
			want += int(rows)
		}
		a.Close()
		for _, s := range to.Take() {
			if err := limits.Check(s); err != nil {
				t.Fatal(err)
			}
			for _, step := range s.Steps {
				for _, n := range step.Count {
					got += int(n)
				}
			}
		}
		if got != want {
			t.Fatalf("%d rows of %d", got, want)
		}
	})
}

// A step of 61 layers of 256 experts.
func BenchmarkAdder(b *testing.B) {
	a := NewAdder(func(*pb.LoadSample) {})
	defer a.Close()
	var experts []uint32
	for e := range uint32(256) {
		experts = append(experts, e)
	}
	step := counted(1, experts...)
	b.ReportAllocs()
	for b.Loop() {
		for layer := range uint32(61) {
			a.Send(gateTold(layer, step))
		}
	}
}
