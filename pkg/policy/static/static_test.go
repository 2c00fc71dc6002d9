package static

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// draw draws what is known; the hosts may have too little room.
func draw(t *rapid.T) plan.Known {
	k := plan.Known{
		Model: plan.Model{
			MoELayers:   rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 4, rapid.ID).Draw(t, "layers"),
			Experts:     rapid.IntRange(1, 12).Draw(t, "experts"),
			ExpertBytes: rapid.Uint64Range(1, 1000).Draw(t, "bytes"),
		},
		Settings: plan.Settings{
			Grouping: rapid.SampledFrom([]plan.Grouping{plan.ByHost, plan.ByExpert}).Draw(t, "grouping"),
			Replicas: rapid.IntRange(0, 4).Draw(t, "replicas"),
		},
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "hosts") {
		k.Hosts = append(k.Hosts, plan.Host{ID: fmt.Sprintf("host-%d", i), Budget: rapid.Uint64Range(0, 40_000).Draw(t, "budget"), Throttles: rapid.Bool().Draw(t, "throttles")})
	}
	return k
}

// some are ids as hosts without a limit.
func some(ids ...string) (hosts []plan.Host) {
	for _, id := range ids {
		hosts = append(hosts, plan.Host{ID: id})
	}
	return hosts
}

// fits reports whether the hosts have room for one replica of every expert.
func fits(k plan.Known) bool {
	slots := 0
	for _, h := range k.Hosts {
		if h.Budget == 0 {
			return true
		}
		slots += int(h.Budget / k.Model.ExpertBytes)
	}
	return slots >= k.Model.Experts*len(k.Model.MoELayers)
}

// on are the hosts that are to have a function warm.
func on(f *pb.Function) (hosts []string) {
	for _, p := range f.Placements {
		hosts = append(hosts, p.Host)
	}
	return hosts
}

// held is how many experts each host has to hold.
func held(layers []*pb.LayerPlan) map[string]int {
	n := map[string]int{}
	for _, l := range layers {
		for _, f := range l.Functions {
			for _, h := range on(f) {
				n[h] += len(f.Experts)
			}
		}
	}
	return n
}

// A plan exists just when one replica of every expert fits; then it is whole
// and no host holds more than it has room for.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t)
		d, err := Plan(k)
		if !fits(k) {
			if !errors.Is(err, ErrNoRoom) {
				t.Fatalf("%v, want ErrNoRoom", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range d.Layers {
			if _, err := (plan.Rules{MoELayers: k.Model.MoELayers, Experts: k.Model.Experts}).Check(l); err != nil {
				t.Fatal(err)
			}
		}
		checkRoom(t, k, held(d.Layers))
		checkFunctions(t, k, d.Layers)
	})
}

func checkRoom(t *rapid.T, k plan.Known, counts map[string]int) {
	for _, h := range k.Hosts {
		if n := uint64(counts[h.ID]); h.Budget > 0 && n*k.Model.ExpertBytes > h.Budget {
			t.Fatalf("%s holds %d experts of %d bytes in %d bytes", h.ID, n, k.Model.ExpertBytes, h.Budget)
		}
	}
}

func checkFunctions(t *rapid.T, k plan.Known, layers []*pb.LayerPlan) {
	for i, l := range layers {
		if int(l.Layer) != k.Model.MoELayers[i] {
			t.Fatalf("layer %d is at place %d", l.Layer, i)
		}
		for _, f := range l.Functions {
			if f.Id != plan.FunctionID(int(l.Layer), f.Experts, plan.Routed) {
				t.Fatalf("function %s of experts %v has another id", f.Id, f.Experts)
			}
			if !slices.IsSorted(on(f)) || len(slices.Compact(on(f))) != len(f.Placements) {
				t.Fatalf("hosts %v", on(f))
			}
			if n := len(f.Placements) - reliefs(k, f); n < 1 || n > max(1, k.Settings.Replicas) || len(f.Placements) > len(k.Hosts) {
				t.Fatalf("%d replicas asked of %d hosts, got %d", k.Settings.Replicas, len(k.Hosts), n)
			}
			if k.Settings.Grouping == plan.ByExpert && len(f.Experts) != 1 {
				t.Fatalf("function of experts %v", f.Experts)
			}
		}
	}
}

// reliefs is 1 if a function has one host more than it was to have, which alone does
// not throttle.
func reliefs(k plan.Known, f *pb.Function) int {
	throttling := 0
	for _, h := range k.Hosts {
		if h.Throttles && slices.Contains(on(f), h.ID) {
			throttling++
		}
	}
	if throttling == max(1, k.Settings.Replicas) && len(f.Placements) == throttling+1 {
		return 1
	}
	return 0
}

// What a throttling host would have alone another one has as well, as far as there is
// room beside one replica of every expert.
func TestRelief(t *testing.T) {
	const bytes = 10
	hosts := func(budgets ...uint64) (all []plan.Host) { // the first one throttles
		for i, b := range budgets {
			all = append(all, plan.Host{ID: string(rune('a' + i)), Budget: b, Throttles: i == 0})
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		hosts    []plan.Host
		replicas int
		want     string
	}{
		{"room enough", hosts(0, 0, 0), 1, "[0]ab [1 4]b [2 5]c [3]ac"},
		{"two replicas", hosts(0, 0, 0), 2, "[0 3]ab [1 4]bc [2 5]ac"},
		{"two that throttle", append(hosts(0, 0), plan.Host{ID: "c", Throttles: true}), 1, "[0 3]ab [1 4]b [2 5]bc"},
		{"alone", hosts(0), 1, "[0 1 2 3 4 5]a"},
		{"room for one", hosts(30, 40), 1, "[0]ab [1 3 5]b [2 4]a"},
		{"no room", hosts(30, 30), 1, "[0 2 4]a [1 3 5]b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			layers := mustPlan(t, plan.Known{
				Model:    plan.Model{MoELayers: []int{0}, Experts: 6, ExpertBytes: bytes},
				Settings: plan.Settings{Grouping: plan.ByHost, Replicas: tt.replicas}, Hosts: tt.hosts,
			})
			var got []string
			for _, f := range layers[0].Functions {
				got = append(got, fmt.Sprint(f.Experts)+strings.Join(on(f), ""))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s, want %s", strings.Join(got, " "), tt.want)
			}
		})
	}
}

func mustPlan(t *testing.T, k plan.Known) []*pb.LayerPlan {
	t.Helper()
	d, err := Plan(k)
	if err != nil {
		t.Fatal(err)
	}
	return d.Layers
}

// By host, no two functions of a layer have the same hosts: they would be one.
func TestGroupedByHost(t *testing.T) {
	k := plan.Known{
		Model:    plan.Model{MoELayers: []int{0}, Experts: 8, ExpertBytes: 1},
		Settings: plan.Settings{Grouping: plan.ByHost, Replicas: 1},
		Hosts:    some("a", "b", "c"),
	}
	if n := len(mustPlan(t, k)[0].Functions); n != 3 {
		t.Errorf("%d functions, want one a host", n)
	}
	// One host named "a b" is not the two hosts a and b.
	k.Settings.Replicas, k.Hosts = 2, some("a", "b", "a b", "b a")
	seen := map[string]bool{}
	for _, f := range mustPlan(t, k)[0].Functions {
		key := fmt.Sprintf("%q", on(f))
		if seen[key] {
			t.Errorf("two functions on %s", key)
		}
		seen[key] = true
	}
}

// Replicas take only what the first replica of every expert leaves.
func TestReplicasYield(t *testing.T) {
	n := held(mustPlan(t, plan.Known{
		Model:    plan.Model{MoELayers: []int{0, 1}, Experts: 4, ExpertBytes: 10},
		Settings: plan.Settings{Grouping: plan.ByExpert, Replicas: 2},
		Hosts:    []plan.Host{{ID: "a", Budget: 50}, {ID: "b", Budget: 55}},
	}))
	if n["a"] != 5 || n["b"] != 5 {
		t.Errorf("held %v, want 5 each", n)
	}
}

func TestSameHostsSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t)
		a, errA := Plan(k)
		k.Hosts = rapid.Permutation(k.Hosts).Draw(t, "order")
		b, errB := Plan(k)
		if (errA == nil) != (errB == nil) || errA == nil && !slices.EqualFunc(a.Layers, b.Layers, plan.Same) {
			t.Fatalf("%v, %v; %v, %v", a, errA, b, errB)
		}
	})
}

// As long as a layer has more experts than hosts, one more host gets some.
func TestAnotherHostChangesThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t)
		for i, h := range k.Hosts {
			k.Hosts[i] = plan.Host{ID: h.ID}
		}
		k.Model.Experts = len(k.Hosts) + 1
		a, err := Plan(k)
		if err != nil {
			t.Fatal(err)
		}
		k.Hosts = append(k.Hosts, plan.Host{ID: rapid.SampledFrom([]string{"a", "host-0a", "z"}).Draw(t, "new")})
		b, err := Plan(k)
		if err != nil {
			t.Fatal(err)
		}
		if slices.EqualFunc(a.Layers, b.Layers, plan.Same) {
			t.Fatalf("%v", a)
		}
	})
}

func TestNoHosts(t *testing.T) {
	if _, err := Plan(plan.Known{Model: plan.Model{MoELayers: []int{0}, Experts: 1}}); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
}
