package plan

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A batch's plan is a legal one: a function an expert with its memory, its replicas on hosts in turn, and the
// layer's transfer, which settings leave as it is.
func TestBatch(t *testing.T) {
	hosts := []string{"a", "b", "c"}
	lp, err := Batch(1, Pipelined, 7, []Deployed{{Memory: 5, Replicas: 1, Foretold: 9}, {Memory: 6, Replicas: 3}, {Memory: 5, Replicas: 2}}, hosts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Rules{MoELayers: []int{1}, Experts: 3}.Check(lp)
	if err != nil {
		t.Fatal(err)
	}
	for e, on := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "c"}} {
		f := lp.Functions[e]
		var got []string
		for _, p := range f.Placements {
			got = append(got, p.Host)
		}
		if !slices.Equal(got, on) || f.MemoryBytes != uint64(5+e%2) || f.Transfer != Pipelined || f.Minibatch != 7 || f.Experts[0] != uint32(e) {
			t.Errorf("expert %d: %v", e, f)
		}
	}
	if lp.Functions[0].Foretold != 9 || lp.Functions[1].Foretold != 0 {
		t.Errorf("what was foretold: %v", lp.Functions)
	}
	if Moved([]*pb.LayerPlan{lp}, Settings{Transfer: Direct})[0] != lp || l.Unmoved() != l {
		t.Error("settings change how rows of a batch's plan travel")
	}
	if _, err := Batch(1, Direct, 0, []Deployed{{Memory: 5, Replicas: 4}}, hosts); err == nil || !strings.Contains(err.Error(), "expert 0 of layer 1 has 4 replicas, and there are 3 expert hosts, each of which can have one: start 1 more") {
		t.Errorf("%v", err)
	}
}
