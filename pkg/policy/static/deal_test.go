package static

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// Every host gets its turn once, the layer's own first, and experts of one turn share a host.
func TestDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers, hosts := rapid.IntRange(1, 100).Draw(t, "layers"), rapid.IntRange(1, 2000).Draw(t, "hosts")
		layer, expert := rapid.IntRange(0, layers-1).Draw(t, "layer"), rapid.IntRange(0, 300).Draw(t, "expert")
		d := DealOf(layer, layers, hosts, rapid.SampledFrom(plan.Groupings).Draw(t, "grouping"))
		seen := map[int]bool{}
		for i := range hosts {
			h := d.Host(expert, i)
			if h < 0 || h >= hosts || seen[h] {
				t.Fatalf("host %d of %d at turn %d of %+v", h, hosts, i, d)
			}
			seen[h] = true
		}
		if d.Host(expert, 0) != d.Host(expert+d.Hosts(), 0) {
			t.Fatalf("experts %d and %d of %+v are apart", expert, expert+d.Hosts(), d)
		}
	})
}

// A large fleet's groups are in the hundreds, and each host has some; a small one's layers are
// on all hosts.
func TestGroups(t *testing.T) {
	for _, tc := range []struct {
		layers, experts, hosts int
		by                     plan.Grouping
		most, on               int // functions in all, hosts with some
	}{
		{61, 256, 1000, plan.ByHost, 1000, 1000}, {61, 256, 100, plan.ByHost, 1000, 100}, {61, 256, 2000, plan.ByHost, 2000, 2000}, {61, 256, 16, plan.ByHost, 976, 16},
		{4, 8, 8, plan.ByHost, 32, 8}, {2, 256, 1000, plan.ByHost, 512, 512}, {200, 16, 40, plan.ByHost, 1600, 40}, {61, 256, 1000, plan.ByExpert, 15616, 256},
	} {
		k := plan.Known{Model: plan.Model{Experts: tc.experts, ExpertBytes: 1}, Settings: plan.Settings{Grouping: tc.by, Replicas: 1}}
		for l := range tc.layers {
			k.Model.MoELayers = append(k.Model.MoELayers, l)
		}
		for h := range tc.hosts {
			k.Hosts = append(k.Hosts, plan.Host{ID: fmt.Sprintf("host-%04d", h)})
		}
		d, err := Plan(k)
		if err != nil {
			t.Fatal(err)
		}
		functions := 0
		for _, l := range d.Layers {
			functions += len(l.Functions)
		}
		if hosts := len(held(d.Layers)); functions > tc.most || functions < tc.most*9/10 || hosts != tc.on {
			t.Errorf("%d layers of %d experts on %d hosts, grouping %s: %d functions on %d hosts, want about %d on %d",
				tc.layers, tc.experts, tc.hosts, tc.by, functions, hosts, tc.most, tc.on)
		}
	}
}
