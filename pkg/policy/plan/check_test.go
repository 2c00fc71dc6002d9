package plan

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var testRules = Rules{Kind: schemas.Kind{ModelHash: 7, NumericClass: "k", Wire: "bf16", Hops: schemas.HopsUnacked}, MoELayers: []int{1}, Experts: 3}

// legal is a plan of layer 1.
func legal(fs ...*pb.Function) *pb.LayerPlan {
	return &pb.LayerPlan{Version: 7, Layer: 1, Functions: fs, ModelHash: 7, NumericClass: "k", Wire: "bf16"}
}

func fn(hosts []string, experts ...uint32) *pb.Function { return Function(1, experts, hosts...) }

func with(change func(*pb.LayerPlan), fs ...*pb.Function) *pb.LayerPlan {
	lp := legal(fs...)
	change(lp)
	return lp
}

func TestCheck(t *testing.T) {
	a := []string{"a"}
	all := fn(a, 0, 1, 2)
	for _, tc := range []struct {
		name    string
		plan    *pb.LayerPlan
		problem string // empty: none
	}{
		{"whole", legal(fn(a, 0, 2), fn(a, 1)), ""},
		{"cold on purpose", legal(fn(a, 0, 2), fn(nil, 1)), ""},
		{"in several functions", legal(all, fn(a, 0), fn(nil, 1, 2)), ""},
		{"nothing", nil, "no experts in this layer"},
		{"another layer", with(func(l *pb.LayerPlan) { l.Layer = 0 }, all), "no experts in this layer"},
		{"another model", with(func(l *pb.LayerPlan) { l.ModelHash = 8 }, all), "model 0000000000000008"},
		{"another class", with(func(l *pb.LayerPlan) { l.NumericClass = "x" }, all), "kernels x"},
		{"another wire", with(func(l *pb.LayerPlan) { l.Wire = "f32" }, all), "wire f32"},
		{"hops that are said", with(func(l *pb.LayerPlan) { l.Hops = "unacked" }, all), ""},
		{"other hops", with(func(l *pb.LayerPlan) { l.Hops = "core" }, all), "hops core"},
		{"another kind", with(func(l *pb.LayerPlan) { l.Functions[0].Kind = 9 }, fn(a, 0, 1, 2)), "its kind is 9: unknown kind of unit: 9; known are 1 (routed) and 2 (united); upgrade"},
		{"divided", with(func(l *pb.LayerPlan) { l.Division = &pb.AccessTime{ReadSeconds: 1e-3, RowSeconds: 1e-6} }, all), ""},
		{"divided by no number", with(func(l *pb.LayerPlan) { l.Division = &pb.AccessTime{RowSeconds: math.NaN()} }, all), "its division: a row takes NaN"},
		{"divided by less than nothing", with(func(l *pb.LayerPlan) { l.Division = &pb.AccessTime{CallSeconds: -1} }, all), "its division: a message takes -1"},
		{"a united one", legal(all, UnitedFunction(1, Bundle{2, 7}, []uint32{0, 1}, "a")), ""},
		{"of two ways", legal(all, UnitedFunction(1, Bundle{2, 7}, []uint32{0}, "a"), UnitedFunction(1, Bundle{3, 7}, []uint32{0}, "a")), ""},
		{"united alone", legal(UnitedFunction(1, Bundle{2, 7}, []uint32{0, 1}, "a")), "expert 0 is in no function"},
		{"a group that is none", legal(all, UnitedFunction(1, Bundle{2, 7}, []uint32{2}, "a")), "united expert 2 of way 2 does not exist; 3 experts make 2"},
		{"a group twice", legal(all, UnitedFunction(1, Bundle{2, 7}, []uint32{1, 1}, "a")), "united expert 1 is in it twice"},
		{"no way", legal(all, UnitedFunction(1, Bundle{0, 7}, []uint32{0}, "a")), "its way is 0"},
		{"a wide way", legal(all, UnitedFunction(1, Bundle{4, 7}, []uint32{0}, "a")), "stands in for 2 to 3"},
		{"no bundle", legal(all, UnitedFunction(1, Bundle{Way: 2}, []uint32{0}, "a")), "its bundle is 0000000000000000; united experts have one"},
		{"a routed bundle", with(func(l *pb.LayerPlan) { l.Functions[0].Bundle = 2 }, fn(a, 0, 1, 2)), "its bundle is 0000000000000002"},
		{"of two bundles", legal(all, UnitedFunction(1, Bundle{2, 7}, []uint32{0}, "a"), UnitedFunction(1, Bundle{2, 8}, []uint32{0}, "a")), ""},
		{"a routed way", with(func(l *pb.LayerPlan) { l.Functions[0].Way = 2 }, fn(a, 0, 1, 2)), "its way is 2"},
		{"indirect", with(func(l *pb.LayerPlan) { l.Functions[0].Transfer = Indirect }, fn(a, 0, 1, 2)), ""},
		{"pipelined", with(func(l *pb.LayerPlan) { l.Functions[0].Transfer, l.Functions[0].Minibatch = Pipelined, 7 }, fn(a, 0, 1, 2)), ""},
		{"no minibatch", with(func(l *pb.LayerPlan) { l.Functions[0].Transfer = Pipelined }, fn(a, 0, 1, 2)), "minibatches of no rows"},
		{"a direct minibatch", with(func(l *pb.LayerPlan) { l.Functions[0].Minibatch = 3 }, fn(a, 0, 1, 2)), "only the pipelined"},
		{"unknown transfer", with(func(l *pb.LayerPlan) { l.Functions[0].Transfer = 4 }, fn(a, 0, 1, 2)), "its transfer mode is 4; known are"},
		{"rented", with(func(l *pb.LayerPlan) { l.Functions[0].MemoryBytes, l.Functions[0].Beside = 4<<20, true }, fn(a, 0, 1, 2)), ""},
		{"rented for too much", with(func(l *pb.LayerPlan) { l.Functions[0].MemoryBytes = 1<<50 + 1 }, fn(a, 0, 1, 2)), "1125899906842625 bytes of memory"},
		{"beside with no memory", with(func(l *pb.LayerPlan) { l.Functions[0].Beside = true }, fn(a, 0, 1, 2)), "beside attention with no memory"},
		{"foretold below zero", with(func(l *pb.LayerPlan) { l.Functions[0].Foretold = -1 }, fn(a, 0, 1, 2)), "-1 rows are foretold"},
		{"foretold no number", with(func(l *pb.LayerPlan) { l.Functions[0].Foretold = math.NaN() }, fn(a, 0, 1, 2)), "NaN rows are foretold"},
		{"a rented united one", with(func(l *pb.LayerPlan) { l.Functions[1].MemoryBytes = 1 }, fn(a, 0, 1, 2), UnitedFunction(1, Bundle{2, 7}, []uint32{0}, "a")), "only routed experts"},
		{"many functions", legal(make([]*pb.Function, 13)...), "13 functions; a layer of 3"},
		{"many members", legal(fn(a, make([]uint32, 25)...)), "25 experts in functions"},
		{"many placements", with(func(l *pb.LayerPlan) { l.Functions[0].Placements = make([]*pb.Placement, MaxPlacements+1) }, fn(a, 0, 1, 2)), "16385 placements"},
		{"no experts", legal(all, fn(a)), "it has no experts"},
		{"another name", with(func(l *pb.LayerPlan) { l.Functions[0].Id = "a.b" }, fn(a, 0, 1, 2)), `function "a.b": its experts`},
		{"a function twice", legal(all, all), "it is there twice"},
		{"a host twice", legal(fn([]string{"a", "a"}, 0, 1, 2)), `host "a" is there twice`},
		{"a host that is no token", legal(fn([]string{"a.>"}, 0, 1, 2)), `host "a.>" is no replica`},
		{"a long host", legal(fn([]string{strings.Repeat("a", 65)}, 0, 1, 2)), "is no replica's id"},
		{"nothing wanted", with(func(l *pb.LayerPlan) { l.Functions[0].Placements[0].Want = 0 }, fn(a, 0, 1, 2)), "which is nothing"},
		{"missing expert", legal(fn(a, 0, 2)), "expert 1 is in no function"},
		{"expert twice in one", legal(fn(a, 0, 0, 1, 2)), "expert 0 is in it twice"},
		{"unknown expert", legal(fn(a, 0, 1, 2, 3)), "expert 3 does not exist"},
		{"huge expert", legal(fn(a, 0, 1, 2, math.MaxUint32)), "expert 4294967295"},
		{"no functions", legal(), "expert 0 is in no function"},
	} {
		l, err := testRules.Check(tc.plan)
		if tc.problem == "" && (err != nil || l.Version != 7) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.problem)
		}
	}
}

// A plan from outside routes every expert, or is an error.
func FuzzCheck(f *testing.F) {
	body, err := proto.Marshal(legal(fn([]string{"a"}, 0, 2), fn(nil, 1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		lp := &pb.LayerPlan{}
		if proto.Unmarshal(body, lp) != nil {
			return
		}
		l, err := testRules.Check(lp)
		if err != nil {
			return
		}
		r := l.Next(nil, func(string) Replicas { return Replicas{} })
		for e := range int32(3) {
			if to := r.Targets[r.Of(e)]; len(to.Id) != 16 || !strings.Contains(fmt.Sprint(to.Experts), fmt.Sprint(e)) {
				t.Errorf("expert %d is in %v", e, to)
			}
		}
	})
}
