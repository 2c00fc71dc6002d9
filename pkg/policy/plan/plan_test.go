package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestFunctionID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		experts := rapid.SliceOfNDistinct(rapid.Uint32Range(0, 500), 1, 20, rapid.ID).Draw(t, "experts")
		layer := rapid.IntRange(0, 90).Draw(t, "layer")
		id := FunctionID(layer, experts, Routed)
		before := slices.Clone(experts)
		if other := FunctionID(layer, rapid.Permutation(experts).Draw(t, "order"), Routed); other != id {
			t.Fatalf("%s and %s", id, other)
		}
		if !slices.Equal(before, experts) {
			t.Fatal("the experts' order changed")
		}
		if FunctionID(layer+1, experts, Routed) == id || FunctionID(layer, experts[1:], Routed) == id {
			t.Fatal("another set has the same id")
		}
	})
}

// The id is in subjects and consumer names of running systems.
func TestFunctionIDIsStable(t *testing.T) {
	if got, want := FunctionID(3, []uint32{5, 0, 2}, Routed), "b938a3565b94b2b1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSame(t *testing.T) {
	make1 := func() *pb.LayerPlan {
		return &pb.LayerPlan{Version: 1, Layer: 2, Functions: []*pb.Function{Function(2, []uint32{0}, "a")}}
	}
	for _, tc := range []struct {
		name   string
		change func(*pb.LayerPlan)
		same   bool
	}{
		{"nothing", func(*pb.LayerPlan) {}, true},
		{"version", func(l *pb.LayerPlan) { l.Version = 9 }, true},
		{"host", func(l *pb.LayerPlan) { l.Functions[0].Placements[0].Host = "b" }, false},
		{"want", func(l *pb.LayerPlan) { l.Functions[0].Placements[0].Want = pb.Want_WANT_COLD }, false},
		{"function", func(l *pb.LayerPlan) { l.Functions[0].Id = "g" }, false},
		{"layer", func(l *pb.LayerPlan) { l.Layer = 3 }, false},
		{"division", func(l *pb.LayerPlan) { l.Division = &pb.AccessTime{} }, false},
		{"fewer", func(l *pb.LayerPlan) { l.Functions = nil }, false},
	} {
		other := make1()
		tc.change(other)
		if got := Same(make1(), other); got != tc.same {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
