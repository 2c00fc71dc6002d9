package elastic

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// In a large fleet hot experts leave their functions, and get replicas on hosts of their layer;
// the layer keeps few functions, and those of a host that is gone go to the layer's others.
func TestWindows(t *testing.T) {
	for _, scaling := range []string{"moeless", "moeless+lean"} {
		y := newFleetOf(t, scaling, 125, 16, 20, plan.ByHost)
		y.core.s.Worth = 0
		y.decide(t)
		first := y.warm
		for range 3 {
			y.rows(t)
			y.decide(t)
		}
		if y.warm <= first {
			t.Errorf("%s: %d replicas, at first %d", scaling, y.warm, first)
		}
		y.inWindows(t, scaling)
		y.known.Hosts = y.known.Hosts[:19]
		y.decide(t)
		y.inWindows(t, scaling+", a host gone")
	}
}

// inWindows wants layers on their own hosts, with few functions.
func (y *large) inWindows(t *testing.T, what string) {
	t.Helper()
	r := y.core.round(y.now, y.known)
	for _, w := range r.layers {
		hosts := map[int]bool{}
		for _, spots := range w.old {
			for _, s := range spots {
				hosts[s.host] = true
			}
		}
		if n := len(w.in.Functions); len(hosts) > len(w.window)+1 || n > 2*len(w.window) {
			t.Fatalf("%s: layer %d has %d functions on %d hosts, and a window of %d", what, w.number, n, len(hosts), len(w.window))
		}
	}
}

// Of a large fleet's functions the whole goes to zero, and the whole comes back: those of experts
// with rows stay as they are.
func TestSharedFate(t *testing.T) {
	y := newFleetOf(t, "moeless", 125, 16, 20, plan.ByHost)
	y.decide(t)
	first := y.known.InForce[0]
	for n := range uint64(2) {
		y.now += 100
		y.step(t, y.now, 0, n+1, &pb.StepLoad{Owner: "attention-a", Rows: 1, Expert: []uint32{3}, Count: []uint32{1}})
		y.decide(t)
	}
	for i, f := range y.known.InForce[0].Functions {
		want := map[bool]pb.Want{true: warm, false: cold}[slices.Contains(f.Experts, 3)]
		if f.Id != first.Functions[i].Id || f.Placements[0].Want != want {
			t.Errorf("%v, at first %v; want %v", f, first.Functions[i], want)
		}
	}
}

// When a host goes, its functions move as they are, and all others stay.
func TestFunctionsMoveWhole(t *testing.T) {
	y := newFleetOf(t, "moeless+lean", 125, 16, 20, plan.ByHost)
	y.decide(t)
	first := y.known.InForce
	gone := y.known.Hosts[7].ID
	y.known.Hosts = slices.Delete(slices.Clone(y.known.Hosts), 7, 8)
	y.decide(t)
	moved := 0
	for layer, in := range y.known.InForce {
		for i, f := range in.Functions {
			before := first[layer].Functions[i]
			if was := before.Placements[0].Host; f.Id != before.Id || len(f.Placements) != 1 || was != gone && f.Placements[0].Host != was {
				t.Errorf("layer %d: %v, before %v", layer, f, before)
			} else if was == gone {
				moved++
			}
		}
	}
	if moved != 50 {
		t.Errorf("%d functions moved, want 50", moved)
	}
}

// Where a layer's own hosts have no room its experts go to others, and no host has more than it
// holds.
func TestTightWindows(t *testing.T) {
	for _, scaling := range []string{"moeless", "eplb", "moeless+lean"} {
		y := newFleetOf(t, scaling, 125, 16, 20, plan.ByHost)
		y.core.s.Worth = 0
		for i, slots := range map[int]uint64{0: 0, 3: 20, 4: 50, 11: 1} {
			y.known.Hosts[i].Budget = max(1, slots*y.known.Model.ExpertBytes) // 0 is no limit
		}
		for i := range 5 {
			if i == 3 {
				y.known.Hosts = y.known.Hosts[:19]
			}
			y.decide(t)
			used := map[string]uint64{}
			for _, l := range y.known.InForce {
				for _, f := range l.Functions {
					for _, p := range f.Placements {
						used[p.Host] += uint64(len(f.Experts)) * y.known.Model.ExpertBytes
					}
				}
			}
			for _, h := range y.known.Hosts {
				if used[h.ID] > h.Budget {
					t.Fatalf("%s, round %d: %d bytes on %s, which holds %d", scaling, i, used[h.ID], h.ID, h.Budget)
				}
				delete(used, h.ID)
			}
			if len(used) > 0 {
				t.Fatalf("%s, round %d: planned on hosts that are gone: %v", scaling, i, used)
			}
			y.rows(t)
		}
	}
}
