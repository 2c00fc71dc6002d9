package plan

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Table is a plan as gates use it: from an expert to its function.
type Table struct {
	Version uint64
	layers  map[int]*Layer
}

// Layer is one layer's functions and where each expert is.
type Layer struct {
	Functions []*pb.Function
	of        []int32 // expert → index in Functions
}

// FunctionOf is the index of an expert's function.
func (l *Layer) FunctionOf(expert int32) int { return int(l.of[expert]) }

// NewTable checks that every expert of every MoE layer is in exactly one
// function, which is named after its experts and has hosts, and that there is
// nothing else: names become subjects, and layers streams.
func NewTable(version uint64, layers []*pb.LayerPlan, moeLayers []int, experts int) (*Table, error) {
	t := &Table{Version: version, layers: map[int]*Layer{}}
	for _, lp := range layers {
		number := int(lp.GetLayer())
		if !slices.Contains(moeLayers, number) || t.layers[number] != nil {
			return nil, fmt.Errorf("plan %d has layer %d, which has no experts in this model or is there twice", version, number)
		}
		l, err := newLayer(lp, experts)
		if err != nil {
			return nil, fmt.Errorf("plan %d, layer %d: %w", version, number, err)
		}
		t.layers[number] = l
	}
	for _, l := range moeLayers {
		if t.layers[l] == nil {
			return nil, fmt.Errorf("plan %d has no layer %d", version, l)
		}
	}
	return t, nil
}

func newLayer(lp *pb.LayerPlan, experts int) (*Layer, error) {
	l := &Layer{Functions: lp.Functions, of: make([]int32, experts)}
	for e := range l.of {
		l.of[e] = -1
	}
	if len(lp.Functions) > experts {
		return nil, fmt.Errorf("%d functions for %d experts", len(lp.Functions), experts)
	}
	for i, f := range lp.Functions {
		if err := checkHosts(f); err != nil {
			return nil, err
		}
		for _, e := range f.Experts {
			if int(e) >= experts || l.of[e] >= 0 {
				return nil, fmt.Errorf("expert %d of function %.64q does not exist or is in two functions", e, f.Id)
			}
			l.of[e] = int32(i)
		}
		if id := FunctionID(int(lp.Layer), f.Experts); f.Id != id {
			return nil, fmt.Errorf("function %.64q of experts %v is called %s", f.Id, f.Experts, id)
		}
	}
	for e, f := range l.of {
		if f < 0 {
			return nil, fmt.Errorf("expert %d is in no function", e)
		}
	}
	return l, nil
}

func checkHosts(f *pb.Function) error {
	if len(f.Hosts) == 0 || len(f.Experts) == 0 {
		return fmt.Errorf("function %.64q has %d experts and %d hosts; it needs both", f.Id, len(f.Experts), len(f.Hosts))
	}
	seen := make(map[string]bool, len(f.Hosts))
	for _, h := range f.Hosts {
		if !schemas.IsReplicaID(h) || seen[h] {
			return fmt.Errorf("host %.64q of function %.64q is no replica's id or there twice", h, f.Id)
		}
		seen[h] = true
	}
	return nil
}

// Layer is the plan of one layer, nil if it has none.
func (t *Table) Layer(l int) *Layer { return t.layers[l] }

// Hosts lists the hosts of the plan.
func (t *Table) Hosts() map[string]bool {
	hosts := map[string]bool{}
	for _, l := range t.layers {
		for _, f := range l.Functions {
			for _, h := range f.Hosts {
				hosts[h] = true
			}
		}
	}
	return hosts
}

// Usable says whether every function has a host that is warm for this plan.
func (t *Table) Usable(warm func(host string) bool) bool {
	for _, l := range t.layers {
		for _, f := range l.Functions {
			if !anyOf(f.Hosts, warm) {
				return false
			}
		}
	}
	return true
}

func anyOf(hosts []string, warm func(string) bool) bool {
	for _, h := range hosts {
		if warm(h) {
			return true
		}
	}
	return false
}
