package planner

import (
	"reflect"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestHostsCountAlike(t *testing.T) {
	host := func(id string, budget, each uint64) *pb.Member {
		return &pb.Member{Id: id, MemoryBudgetBytes: budget, ExpertBytes: each}
	}
	for _, c := range []struct {
		name  string
		all   []*pb.Member
		want  []plan.Host
		bytes uint64
	}{
		{"silent", []*pb.Member{host("a", 50, 0)}, []plan.Host{{ID: "a", Budget: 50}}, 10},
		{"same", []*pb.Member{host("a", 50, 20), host("b", 0, 20)}, []plan.Host{{ID: "a", Budget: 50}, {ID: "b"}}, 20},
		{"other device", []*pb.Member{host("a", 50, 20), host("b", 500, 100), host("c", 50, 20)},
			[]plan.Host{{ID: "a", Budget: 50}, {ID: "b", Budget: 100}, {ID: "c", Budget: 50}}, 20},
		{"too small", []*pb.Member{host("a", 50, 20), host("b", 5, 7), host("c", 50, 20)},
			[]plan.Host{{ID: "a", Budget: 50}, {ID: "b", Budget: 1}, {ID: "c", Budget: 50}}, 20},
		{"a liar", []*pb.Member{host("a", 50, 1<<63), host("b", 50, 20)}, []plan.Host{{ID: "a", Budget: 50}, {ID: "b", Budget: 50}}, 20},
		{"tiny experts", []*pb.Member{host("a", 1<<62, 1), host("b", 50, 20), host("c", 50, 20)},
			[]plan.Host{{ID: "a", Budget: maxExperts * 20}, {ID: "b", Budget: 50}, {ID: "c", Budget: 50}}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, bytes := hosts(c.all, plan.Model{ExpertBytes: 10}); bytes != c.bytes || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v of %d bytes", got, bytes)
			}
		})
	}
}
