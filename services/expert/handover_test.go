package expert

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A function that moved to another host keeps its group.
func TestPlanned(t *testing.T) {
	l, err := plan.Rules{MoELayers: []int{3}, Experts: 3}.Check(&pb.LayerPlan{Layer: 3, Functions: []*pb.Function{
		plan.Function(3, []uint32{0}, "there"), plan.Function(3, []uint32{1}, "here"), plan.Function(3, []uint32{2}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{plans: map[int]*plan.Layer{3: l}}
	for e, want := range []bool{true, true, false} {
		if got := s.planned(&function{layer: 3, spec: l.Functions[e]}); got != want {
			t.Errorf("function of expert %d planned: %v", e, got)
		}
	}
	if s.planned(&function{layer: 4, spec: l.Functions[0]}) {
		t.Error("planned in another layer")
	}
}

// A host leaves when nobody sends to it, or nobody else could do its work.
func TestNeeded(t *testing.T) {
	gate := &pb.Member{Id: "g", Service: "gate"}
	other := &pb.Member{Id: "there", Service: "expert"}
	leaving := &pb.Member{Id: "here", Service: "expert", Draining: true}
	s := &Service{id: "here", functions: map[string]*function{"f": {}}}
	for _, c := range []struct {
		name string
		all  []*pb.Member
		want bool
	}{
		{"gates still send here", []*pb.Member{gate, other, leaving}, true},
		{"no gate", []*pb.Member{other, leaving}, false},
		{"no other host", []*pb.Member{gate, leaving}, false},
	} {
		if got := s.needed(c.all); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	s.functions = nil
	if s.needed([]*pb.Member{gate, other, leaving}) {
		t.Error("needed without functions")
	}
}
