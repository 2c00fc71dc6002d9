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
		id := FunctionID(layer, experts)
		before := slices.Clone(experts)
		if other := FunctionID(layer, rapid.Permutation(experts).Draw(t, "order")); other != id {
			t.Fatalf("%s and %s", id, other)
		}
		if !slices.Equal(before, experts) {
			t.Fatal("the experts' order changed")
		}
		if FunctionID(layer+1, experts) == id || FunctionID(layer, experts[1:]) == id {
			t.Fatal("another set has the same id")
		}
	})
}

// The id is in subjects and consumer names of running systems.
func TestFunctionIDIsStable(t *testing.T) {
	if got, want := FunctionID(3, []uint32{5, 0, 2}), "b938a3565b94b2b1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSame(t *testing.T) {
	make1 := func() []*pb.LayerPlan {
		return []*pb.LayerPlan{{Version: 1, Layer: 2, Functions: []*pb.Function{{Id: "f", Experts: []uint32{0}, Hosts: []string{"a"}}}}}
	}
	for _, tc := range []struct {
		name   string
		change func([]*pb.LayerPlan) []*pb.LayerPlan
		same   bool
	}{
		{"nothing", func(l []*pb.LayerPlan) []*pb.LayerPlan { return l }, true},
		{"version", func(l []*pb.LayerPlan) []*pb.LayerPlan { l[0].Version = 9; return l }, true},
		{"host", func(l []*pb.LayerPlan) []*pb.LayerPlan { l[0].Functions[0].Hosts[0] = "b"; return l }, false},
		{"function", func(l []*pb.LayerPlan) []*pb.LayerPlan { l[0].Functions[0].Id = "g"; return l }, false},
		{"layer", func(l []*pb.LayerPlan) []*pb.LayerPlan { l[0].Layer = 3; return l }, false},
		{"fewer", func(l []*pb.LayerPlan) []*pb.LayerPlan { return l[:0] }, false},
	} {
		if got := Same(make1(), tc.change(make1())); got != tc.same {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
