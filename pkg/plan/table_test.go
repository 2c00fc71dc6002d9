package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func fn(id string, hosts []string, experts ...uint32) *pb.Function {
	return &pb.Function{Id: id, Hosts: hosts, Experts: experts}
}

func TestNewTable(t *testing.T) {
	a := []string{"a"}
	whole := &pb.LayerPlan{Layer: 1, Functions: []*pb.Function{fn("f", a, 0, 2), fn("g", a, 1)}}
	layer := func(fs ...*pb.Function) []*pb.LayerPlan { return []*pb.LayerPlan{{Layer: 1, Functions: fs}} }
	for _, tc := range []struct {
		name    string
		layers  []*pb.LayerPlan
		problem string // empty: none
	}{
		{"whole", []*pb.LayerPlan{whole}, ""},
		{"no layer", nil, "no layer 1"},
		{"other layer", []*pb.LayerPlan{{Layer: 0, Functions: whole.Functions}}, "no layer 1"},
		{"missing expert", layer(fn("f", a, 0, 2)), "expert 1 is in no function"},
		{"expert twice", layer(fn("f", a, 0, 2), fn("g", a, 1, 2)), "expert 2 of function g"},
		{"expert twice in one", layer(fn("f", a, 0, 0, 1, 2)), "expert 0 of function f"},
		{"unknown expert", layer(fn("f", a, 0, 1, 2, 3)), "expert 3 of function f"},
		{"huge expert", layer(fn("f", a, 0, 1, 2, 1<<31)), "expert 2147483648"},
		{"no host", layer(fn("f", nil, 0, 1, 2)), "function f has no host"},
		{"no functions", layer(), "expert 0 is in no function"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, err := NewTable(7, tc.layers, []int{1}, 3)
			if tc.problem == "" {
				if err != nil || table.Version != 7 {
					t.Fatalf("%v, %v", table, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.problem) || !strings.Contains(err.Error(), "plan 7") {
				t.Errorf("%v, want %q", err, tc.problem)
			}
		})
	}
}

// The table finds each expert in the function that has it.
func TestFunctionOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, hosts := drawStatic(t)
		layers, err := s.Plan(hosts)
		if err != nil {
			return
		}
		table, err := NewTable(1, layers, s.MoELayers, s.Experts)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range s.MoELayers {
			layer := table.Layer(l)
			for e := range s.Experts {
				if f := layer.Functions[layer.FunctionOf(int32(e))]; !slices.Contains(f.Experts, uint32(e)) {
					t.Fatalf("expert %d in %v", e, f)
				}
			}
		}
		if got, want := slices.Sorted(maps.Keys(table.Hosts())), slices.Sorted(maps.Keys(held(layers))); !slices.Equal(got, want) {
			t.Fatalf("hosts %v, want %v", got, want)
		}
		if table.Layer(99) != nil {
			t.Fatal("a layer that is not there")
		}
	})
}

func TestUsable(t *testing.T) {
	layers := []*pb.LayerPlan{{Layer: 0, Functions: []*pb.Function{fn("f", []string{"a", "b"}, 0), fn("g", []string{"b", "c"}, 1)}}}
	table, err := NewTable(1, layers, []int{0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for warm, want := range map[string]bool{"": false, "a": false, "b": true, "c": false, "ac": true, "abc": true} {
		if got := table.Usable(func(h string) bool { return strings.Contains(warm, h) }); got != want {
			t.Errorf("with %q warm: %v", warm, got)
		}
	}
}
