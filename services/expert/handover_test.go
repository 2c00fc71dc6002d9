package expert

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func function1(id, host string, experts ...uint32) *pb.Function {
	return &pb.Function{Id: id, Hosts: []string{host}, Experts: experts}
}

// A function that moved to another host keeps its group.
func TestPlanned(t *testing.T) {
	s := &Service{newest: []*pb.LayerPlan{{Layer: 3, Functions: []*pb.Function{function1("moved", "there", 4), function1("coming", "here", 5)}}}}
	for id, want := range map[string]bool{"moved": true, "coming": true, "retired": false} {
		if got := s.planned(3, id); got != want {
			t.Errorf("function %s planned: %v", id, got)
		}
	}
	if s.planned(4, "moved") {
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
