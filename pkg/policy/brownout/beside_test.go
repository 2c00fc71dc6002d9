package brownout

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var eight = plan.Offer{Bundle: plan.Bundle{Way: 4, ID: 7}, Bytes: 10}

// known is two layers of 8 experts of 10 bytes, and hosts with budgets.
func known(by plan.Grouping, budgets ...uint64) plan.Known {
	k := plan.Known{Model: plan.Model{MoELayers: []int{1, 2}, Experts: 8, ExpertBytes: 10}, Settings: plan.Settings{Policy: plan.Static, Grouping: by, Replicas: 1}}
	for i, b := range budgets {
		k.Hosts = append(k.Hosts, plan.Host{ID: fmt.Sprint("h", i), Budget: b, United: []plan.Offer{eight}})
	}
	return k
}

// unitedOf lists a plan's united functions as layer, groups and host.
func unitedOf(d *plan.Decision) (all []string) {
	for _, l := range d.Layers {
		for _, f := range l.Functions {
			if f.Kind == plan.United {
				all = append(all, fmt.Sprintf("%d %v %s", l.Layer, f.Experts, f.Placements[0].Host))
			}
		}
	}
	return all
}

// United experts are dealt in turn, as memory allows: routed experts come first.
func TestPlan(t *testing.T) {
	without := known(plan.ByHost, 0)
	without.Hosts[0].United = []plan.Offer{{Bundle: eight.Bundle, Bytes: 10, Without: []bool{false, true, true, true}}}
	two := known(plan.ByHost, 0, 0)
	two.Hosts[1].United = nil
	other := known(plan.ByHost, 0)
	other.Settings.Way = 2
	for _, tc := range []struct {
		name string
		k    plan.Known
		want string
	}{
		{"one host", known(plan.ByHost, 0), "[1 [0 1] h0 2 [0 1] h0]"},
		{"two hosts", known(plan.ByHost, 0, 0), "[1 [0] h0 1 [1] h1 2 [0] h1 2 [1] h0]"},
		{"one each", known(plan.ByExpert, 0), "[1 [0] h0 1 [1] h0 2 [0] h0 2 [1] h0]"},
		{"room for two more", known(plan.ByHost, 180), "[1 [0 1] h0]"},
		{"no room", known(plan.ByHost, 160), "[]"},
		{"some without", without, "[1 [0] h0]"},
		{"a host without", two, "[1 [0 1] h0 2 [0 1] h0]"},
		{"another way", other, "[]"},
	} {
		d, err := PlanBeside(tc.k, static.Plan)
		if err != nil || fmt.Sprint(unitedOf(d)) != tc.want {
			t.Errorf("%s: %v, %v, want %s", tc.name, unitedOf(d), err, tc.want)
		}
	}
}

// A policy that has no room beside united experts plans without, and sees none in force.
func TestAlone(t *testing.T) {
	k := known(plan.ByHost, 400)
	first, err := PlanBeside(k, static.Plan)
	if err != nil {
		t.Fatal(err)
	}
	rules := plan.Rules{MoELayers: k.Model.MoELayers, Experts: 8}
	k.InForce = map[int]*plan.Layer{}
	for _, lp := range first.Layers {
		l, err := rules.Check(lp)
		if err != nil {
			t.Fatal(err)
		}
		k.InForce[int(lp.Layer)] = l
	}
	asked := 0
	d, err := PlanBeside(k, func(seen plan.Known) (*plan.Decision, error) {
		asked++
		for l, in := range seen.InForce {
			if in.HasUnited() || !k.InForce[l].HasUnited() {
				t.Errorf("layer %d in force has united experts", l)
			}
		}
		if seen.Hosts[0].Budget < 400 {
			return nil, errors.New("too little")
		}
		return static.Plan(seen)
	})
	if err != nil || asked != 2 || len(unitedOf(d)) != 0 {
		t.Errorf("asked %d times: %v, %v", asked, d, err)
	}
}

func TestChoose(t *testing.T) {
	of := func(way int, id uint64) plan.Offer { return plan.Offer{Bundle: plan.Bundle{Way: way, ID: id}} }
	hosts := []plan.Host{{United: []plan.Offer{of(2, 5), of(4, 9)}}, {United: []plan.Offer{of(2, 3), of(4, 9)}}, {United: []plan.Offer{of(4, 1)}}, {}}
	for way, want := range map[int]uint64{0: 9, 2: 3, 4: 9, 8: 0} {
		if o, ok := ChooseBeside(hosts, way); o.ID != want || ok != (want > 0) {
			t.Errorf("way %d: %+v", way, o)
		}
	}
}

// Whatever hosts hold, no budget is exceeded, each united expert has one host at most, and the
// plan is legal.
func TestLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := known(rapid.SampledFrom(plan.Groupings).Draw(t, "grouping"))
		for i := range rapid.IntRange(1, 4).Draw(t, "hosts") {
			h := plan.Host{ID: fmt.Sprint("h", i), Budget: rapid.Uint64Range(0, 300).Draw(t, "budget")}
			if rapid.Bool().Draw(t, "able") {
				o := plan.Offer{Bundle: plan.Bundle{Way: rapid.IntRange(2, 8).Draw(t, "way"), ID: 7}, Bytes: rapid.Uint64Range(1, 25).Draw(t, "bytes")}
				o.Without = rapid.SliceOfN(rapid.Bool(), 0, 8).Draw(t, "without")
				h.United = []plan.Offer{o}
			}
			k.Hosts = append(k.Hosts, h)
		}
		_, alone := static.Plan(k)
		d, err := PlanBeside(k, static.Plan)
		if (err == nil) != (alone == nil) {
			t.Fatalf("%v, alone %v", err, alone)
		}
		if err != nil {
			return
		}
		used := map[string]uint64{}
		offer, _ := ChooseBeside(k.Hosts, 0)
		for _, lp := range d.Layers {
			if _, err := (plan.Rules{MoELayers: k.Model.MoELayers, Experts: 8}).Check(lp); err != nil {
				t.Fatal(err)
			}
			for _, f := range lp.Functions {
				for _, p := range f.Placements {
					used[p.Host] += uint64(len(f.Experts)) * bytesOf(f, offer)
				}
			}
		}
		for _, h := range k.Hosts {
			if h.Budget > 0 && used[h.ID] > h.Budget {
				t.Fatalf("host %s has %d of %d bytes", h.ID, used[h.ID], h.Budget)
			}
		}
	})
}

func bytesOf(f *pb.Function, o plan.Offer) uint64 {
	if f.Kind == plan.United {
		return o.Bytes
	}
	return 10
}
