package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// drawStatic draws a planner's question and hosts with room for the answer.
func drawStatic(t *rapid.T) (Static, []Host) {
	s := Static{
		MoELayers:   rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 4, rapid.ID).Draw(t, "layers"),
		Experts:     rapid.IntRange(1, 12).Draw(t, "experts"),
		ExpertBytes: rapid.Uint64Range(1, 1000).Draw(t, "bytes"),
		Grouping:    rapid.SampledFrom([]Grouping{ByHost, ByExpert}).Draw(t, "grouping"),
		Replicas:    rapid.IntRange(0, 4).Draw(t, "replicas"),
	}
	hosts := make([]Host, rapid.IntRange(1, 6).Draw(t, "hosts"))
	for i := range hosts {
		hosts[i] = Host{ID: fmt.Sprintf("host-%d", i), Budget: rapid.Uint64Range(0, 40_000).Draw(t, "budget")}
	}
	return s, hosts
}

func fits(s Static, hosts []Host) bool {
	slots := 0
	for _, h := range hosts {
		if h.Budget == 0 {
			return true
		}
		slots += int(h.Budget / s.ExpertBytes)
	}
	return slots >= s.Experts*len(s.MoELayers)
}

// held is how many experts each host has to hold.
func held(layers []*pb.LayerPlan) map[string]int {
	n := map[string]int{}
	for _, l := range layers {
		for _, f := range l.Functions {
			for _, h := range f.Hosts {
				n[h] += len(f.Experts)
			}
		}
	}
	return n
}

// A plan exists just when one replica of every expert fits; then it is whole
// and no host holds more than its budget.
func TestStaticPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, hosts := drawStatic(t)
		layers, err := s.Plan(hosts)
		if !fits(s, hosts) {
			if !errors.Is(err, ErrNoRoom) {
				t.Fatalf("%v, want ErrNoRoom", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewTable(1, layers, s.MoELayers, s.Experts); err != nil {
			t.Fatal(err)
		}
		counts := held(layers)
		for _, h := range hosts {
			if n := counts[h.ID]; h.Budget > 0 && uint64(n)*s.ExpertBytes > h.Budget {
				t.Fatalf("%s holds %d experts of %d bytes in %d bytes", h.ID, n, s.ExpertBytes, h.Budget)
			}
		}
		checkFunctions(t, s, layers, len(hosts))
	})
}

func checkFunctions(t *rapid.T, s Static, layers []*pb.LayerPlan, hosts int) {
	for i, l := range layers {
		if int(l.Layer) != s.MoELayers[i] {
			t.Fatalf("layer %d is at place %d", l.Layer, i)
		}
		for _, f := range l.Functions {
			if f.Id != FunctionID(int(l.Layer), f.Experts) {
				t.Fatalf("function %s of experts %v has another id", f.Id, f.Experts)
			}
			if !slices.IsSorted(f.Hosts) || len(slices.Compact(slices.Clone(f.Hosts))) != len(f.Hosts) {
				t.Fatalf("hosts %v", f.Hosts)
			}
			if n := len(f.Hosts); n < 1 || n > max(1, s.Replicas) || n > hosts {
				t.Fatalf("%d replicas asked of %d hosts, got %d", s.Replicas, hosts, n)
			}
			if s.Grouping == ByExpert && len(f.Experts) != 1 {
				t.Fatalf("function of experts %v", f.Experts)
			}
		}
	}
}

// By host, no two functions of a layer have the same hosts: they would be one.
func TestGroupedByHost(t *testing.T) {
	s := Static{MoELayers: []int{0}, Experts: 8, ExpertBytes: 1, Grouping: ByHost, Replicas: 1}
	layers, err := s.Plan([]Host{{ID: "a"}, {ID: "b"}, {ID: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(layers[0].Functions); n != 3 {
		t.Errorf("%d functions, want one a host", n)
	}
	// One host named "a b" is not the two hosts a and b.
	s.Replicas = 2
	layers, err = s.Plan([]Host{{ID: "a"}, {ID: "b"}, {ID: "a b"}, {ID: "b a"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range layers[0].Functions {
		key := fmt.Sprintf("%q", f.Hosts)
		if seen[key] {
			t.Errorf("two functions on %s", key)
		}
		seen[key] = true
	}
}

// Replicas take only what the first replica of every expert leaves.
func TestReplicasYield(t *testing.T) {
	s := Static{MoELayers: []int{0, 1}, Experts: 4, ExpertBytes: 10, Grouping: ByExpert, Replicas: 2}
	hosts := []Host{{ID: "a", Budget: 50}, {ID: "b", Budget: 55}}
	layers, err := s.Plan(hosts)
	if err != nil {
		t.Fatal(err)
	}
	if n := held(layers); n["a"] != 5 || n["b"] != 5 {
		t.Errorf("held %v, want 5 each", n)
	}
}

func TestSameHostsSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, hosts := drawStatic(t)
		a, errA := s.Plan(hosts)
		b, errB := s.Plan(rapid.Permutation(hosts).Draw(t, "order"))
		if (errA == nil) != (errB == nil) || !Same(a, b) {
			t.Fatalf("%v, %v; %v, %v", a, errA, b, errB)
		}
	})
}

// As long as a layer has more experts than hosts, one more host gets some.
func TestAnotherHostChangesThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, hosts := drawStatic(t)
		for i := range hosts {
			hosts[i].Budget = 0
		}
		s.Experts = len(hosts) + 1
		a, err := s.Plan(hosts)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Plan(append(hosts, Host{ID: rapid.SampledFrom([]string{"a", "host-0a", "z"}).Draw(t, "new")}))
		if err != nil {
			t.Fatal(err)
		}
		if Same(a, b) {
			t.Fatalf("%v", a)
		}
	})
}

func TestNoHosts(t *testing.T) {
	if _, err := (Static{MoELayers: []int{0}, Experts: 1}).Plan(nil); err == nil || !strings.Contains(err.Error(), "host") {
		t.Error(err)
	}
}

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
