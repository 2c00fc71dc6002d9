package gate

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/control/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// table is a plan of one layer: function i runs on hosts[i].
func table(t *testing.T, version uint64, hosts ...[]string) *plan.Table {
	t.Helper()
	lp := &pb.LayerPlan{}
	for i, on := range hosts {
		lp.Functions = append(lp.Functions, &pb.Function{Id: plan.FunctionID(0, []uint32{uint32(i)}), Experts: []uint32{uint32(i)}, Hosts: on})
	}
	out, err := plan.NewTable(version, []*pb.LayerPlan{lp}, []int{0}, len(hosts))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func used(p *planSwitch) uint64 {
	if t := p.current(); t != nil {
		return t.Version
	}
	return 0
}

// The gate goes over to a plan when its functions are warm, and not before.
func TestPlanSwitch(t *testing.T) {
	a, b, ab := []string{"a"}, []string{"b"}, []string{"a", "b"}
	type warm = map[string]uint64
	for _, tc := range []struct {
		name  string
		steps []any // a *plan.Table is offered, a warm announced
		want  uint64
	}{
		{"nothing", nil, 0},
		{"a plan alone", []any{table(t, 1, a)}, 0},
		{"hosts alone", []any{warm{"a": 1}}, 0},
		{"warm then planned", []any{warm{"a": 1}, table(t, 1, a)}, 1},
		{"planned then warm", []any{table(t, 1, a), warm{"a": 1}}, 1},
		{"cold", []any{table(t, 1, a), warm{"a": 0}}, 0},
		{"one function cold", []any{table(t, 1, a, b), warm{"a": 1, "b": 0}}, 0},
		{"one function dead", []any{table(t, 1, a, b), warm{"a": 1}}, 0},
		{"a replica warms", []any{table(t, 1, ab), warm{"a": 1, "b": 0}}, 1},
		{"a host without functions is slow", []any{table(t, 1, a), warm{"a": 1}, table(t, 2, a, ab), warm{"a": 2, "b": 1}}, 2},
		{"a replica is dead", []any{table(t, 1, ab), warm{"a": 1}}, 1},
		{"load, then switch", []any{table(t, 1, a), warm{"a": 1}, table(t, 2, a, b), warm{"a": 2, "b": 1}}, 1},
		{"switched", []any{table(t, 1, a), warm{"a": 1}, table(t, 2, a, b), warm{"a": 2, "b": 1}, warm{"a": 2, "b": 2}}, 2},
		{"already newer", []any{table(t, 2, a), warm{"a": 3}}, 2},
		{"the newest of two", []any{table(t, 1, a), table(t, 2, b), warm{"a": 2, "b": 2}}, 2},
		{"all gone: stays", []any{table(t, 1, a), warm{"a": 1}, warm{}}, 1},
		{"all gone: stays with the old", []any{table(t, 1, a), warm{"a": 1}, table(t, 2, b), warm{"a": 2}}, 1},
	} {
		p := &planSwitch{}
		for _, s := range tc.steps {
			switch s := s.(type) {
			case *plan.Table:
				p.offer(s)
			case warm:
				p.hosts(s)
			}
		}
		if got := used(p); got != tc.want {
			t.Errorf("%s: plan %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestWarmReplicas(t *testing.T) {
	p := &planSwitch{}
	p.hosts(map[string]uint64{"a": 1, "b": 0, "c": 4})
	for want, hosts := range map[int][]string{1: {"b"}, 2: {"a", "c", "gone"}} {
		if got := p.warmReplicas(&pb.Function{Hosts: hosts}); got != want {
			t.Errorf("%v: %d, want %d", hosts, got, want)
		}
	}
	if got := p.warmReplicas(&pb.Function{Hosts: []string{"b", "gone"}}); got != 1 {
		t.Errorf("none warm: %d, want 1", got)
	}
}

func TestWarmHosts(t *testing.T) {
	got := WarmHosts([]*pb.Member{
		{Id: "a", Service: "expert", PlanVersion: 3}, {Id: "b", Service: "expert", Draining: true, PlanVersion: 3},
		{Id: "c", Service: "gate", PlanVersion: 3}, {Id: "d", Service: "expert"},
	})
	if len(got) != 2 || got["a"] != 3 || got["d"] != 0 {
		t.Errorf("%v", got)
	}
}
