package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// fn is a function of layer 1.
func fn(hosts []string, experts ...uint32) *pb.Function {
	return &pb.Function{Id: FunctionID(1, experts), Hosts: hosts, Experts: experts}
}

func named1(id string, f *pb.Function) *pb.Function { f.Id = id; return f }

func TestNewTable(t *testing.T) {
	a := []string{"a"}
	whole := &pb.LayerPlan{Layer: 1, Functions: []*pb.Function{fn(a, 0, 2), fn(a, 1)}}
	layer := func(fs ...*pb.Function) []*pb.LayerPlan { return []*pb.LayerPlan{{Layer: 1, Functions: fs}} }
	for _, tc := range []struct {
		name    string
		layers  []*pb.LayerPlan
		problem string // empty: none
	}{
		{"whole", []*pb.LayerPlan{whole}, ""},
		{"no layer", nil, "no layer 1"},
		{"other layer", []*pb.LayerPlan{{Layer: 0, Functions: whole.Functions}}, "layer 0, which has no experts"},
		{"one layer more", []*pb.LayerPlan{whole, {Layer: 60}}, "layer 60, which has no experts"},
		{"a layer twice", []*pb.LayerPlan{whole, whole}, "layer 1, which has no experts in this model or is there twice"},
		{"many functions", layer(fn(a, 0), fn(a, 1), fn(a, 2), fn(a)), "4 functions for 3 experts"},
		{"no experts", layer(fn(a, 0, 1, 2), fn(a)), "0 experts"},
		{"another name", layer(named1("a.b", fn(a, 0, 1, 2))), `function "a.b" of experts`},
		{"a host twice", layer(fn([]string{"a", "a"}, 0, 1, 2)), `host "a" of`},
		{"a host that is no token", layer(fn([]string{"a.>"}, 0, 1, 2)), `host "a.>" of`},
		{"a long host", layer(fn([]string{strings.Repeat("a", 65)}, 0, 1, 2)), "is no replica's id"},
		{"missing expert", layer(fn(a, 0, 2)), "expert 1 is in no function"},
		{"expert twice", layer(fn(a, 0, 2), fn(a, 1, 2)), "expert 2 of function"},
		{"expert twice in one", layer(fn(a, 0, 0, 1, 2)), "expert 0 of function"},
		{"unknown expert", layer(fn(a, 0, 1, 2, 3)), "expert 3 of function"},
		{"huge expert", layer(fn(a, 0, 1, 2, 1<<31)), "expert 2147483648"},
		{"no host", layer(fn(nil, 0, 1, 2)), "3 experts and 0 hosts"},
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

// drawLayers draws a plan of functions with any experts and hosts.
func drawLayers(t *rapid.T, moeLayers []int, experts int) (layers []*pb.LayerPlan) {
	for _, l := range moeLayers {
		functions := map[int]*pb.Function{}
		for e := range experts {
			at := rapid.IntRange(0, 3).Draw(t, "function")
			if functions[at] == nil {
				functions[at] = &pb.Function{Hosts: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "hosts")}
			}
			functions[at].Experts = append(functions[at].Experts, uint32(e))
		}
		for _, f := range functions {
			f.Id = FunctionID(l, f.Experts)
		}
		layers = append(layers, &pb.LayerPlan{Layer: uint32(l), Functions: slices.Collect(maps.Values(functions))})
	}
	return layers
}

// The table finds each expert in the function that has it.
func TestFunctionOf(t *testing.T) {
	moeLayers := []int{1, 4}
	rapid.Check(t, func(t *rapid.T) {
		experts := rapid.IntRange(1, 12).Draw(t, "experts")
		layers := drawLayers(t, moeLayers, experts)
		table, err := NewTable(1, layers, moeLayers, experts)
		if err != nil {
			t.Fatal(err)
		}
		hosts := map[string]bool{}
		for _, lp := range layers {
			layer := table.Layer(int(lp.Layer))
			for e := range experts {
				f := layer.Functions[layer.FunctionOf(int32(e))]
				if !slices.Contains(f.Experts, uint32(e)) {
					t.Fatalf("expert %d in %v", e, f)
				}
				for _, h := range f.Hosts {
					hosts[h] = true
				}
			}
		}
		if !maps.Equal(table.Hosts(), hosts) {
			t.Fatalf("hosts %v, want %v", table.Hosts(), hosts)
		}
		if table.Layer(99) != nil {
			t.Fatal("a layer that is not there")
		}
	})
}

func TestUsable(t *testing.T) {
	layers := []*pb.LayerPlan{{Layer: 1, Functions: []*pb.Function{fn([]string{"a", "b"}, 0), fn([]string{"b", "c"}, 1)}}}
	table, err := NewTable(1, layers, []int{1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for warm, want := range map[string]bool{"": false, "a": false, "b": true, "c": false, "ac": true, "abc": true} {
		if got := table.Usable(func(h string) bool { return strings.Contains(warm, h) }); got != want {
			t.Errorf("with %q warm: %v", warm, got)
		}
	}
}

// A plan from outside is a table that routes every expert, or an error.
func FuzzNewTable(f *testing.F) {
	body, err := proto.Marshal(&pb.LayerPlan{Layer: 1, Functions: []*pb.Function{fn([]string{"a"}, 0, 2), fn([]string{"b"}, 1)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		lp := &pb.LayerPlan{}
		if proto.Unmarshal(body, lp) != nil {
			return
		}
		table, err := NewTable(1, []*pb.LayerPlan{lp}, []int{1}, 3)
		if err != nil {
			return
		}
		for e := range int32(3) {
			if fn := table.Layer(1).Functions[table.Layer(1).FunctionOf(e)]; len(fn.Hosts) == 0 || len(fn.Id) != 16 {
				t.Errorf("expert %d is in %v", e, fn)
			}
		}
	})
}
