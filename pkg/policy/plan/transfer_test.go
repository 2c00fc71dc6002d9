package plan

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Settings that name a mode are every function's, and what was planned stays as it was.
func TestMoved(t *testing.T) {
	layer := &pb.LayerPlan{Layer: 1, Reason: "r", Functions: []*pb.Function{
		Function(1, []uint32{0, 1}, "a"), UnitedFunction(1, Bundle{Way: 2, ID: 9}, []uint32{0}, "b"),
	}}
	layer.Functions[0].Transfer, layer.Functions[0].MemoryBytes, layer.Functions[0].Beside, layer.Functions[0].Foretold = Indirect, 5, true, 7
	before := proto.CloneOf(layer)
	if got := Moved([]*pb.LayerPlan{layer}, DefaultSettings()); got[0] != layer || !Stores(got) {
		t.Errorf("without a mode: %v", got)
	}
	got := Moved([]*pb.LayerPlan{layer}, Settings{Transfer: Pipelined, Minibatch: 7})
	for i, f := range got[0].Functions {
		want := proto.CloneOf(before.Functions[i])
		want.Transfer, want.Minibatch = Pipelined, 7
		if !proto.Equal(f, want) {
			t.Errorf("%v, want %v", f, want)
		}
	}
	if got[0].Reason != "r" || !Stores(got) || !proto.Equal(layer, before) {
		t.Errorf("%v of %v", got[0], layer)
	}
	if Stores(Moved(got, Settings{Transfer: Direct})) {
		t.Error("single messages are stored")
	}
}

// A plan without its transfers is a legal plan that asks for the same, and knows its functions.
func TestUnmoved(t *testing.T) {
	lp := &pb.LayerPlan{Functions: []*pb.Function{Function(0, []uint32{0, 1}, "a")}}
	l, err := Rules{MoELayers: []int{0}, Experts: 2}.Check(lp)
	if err != nil {
		t.Fatal(err)
	}
	if l.Unmoved() != l {
		t.Error("it had none")
	}
	moved, err := Rules{MoELayers: []int{0}, Experts: 2}.Check(Moved([]*pb.LayerPlan{lp}, Settings{Transfer: Pipelined, Minibatch: 7})[0])
	if err != nil {
		t.Fatal(err)
	}
	un := moved.Unmoved()
	if !Same(un.LayerPlan, lp) || Same(moved.LayerPlan, lp) || un.Function(lp.Functions[0].Id).GetTransfer() != 0 {
		t.Errorf("%v of %v", un.LayerPlan, moved.LayerPlan)
	}
}
