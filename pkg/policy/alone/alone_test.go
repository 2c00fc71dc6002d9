package alone

import (
	"errors"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Hosts plan by whatever policy settings may name; one that wants more of a host than it
// holds is an error.
func TestBy(t *testing.T) {
	stack := func(w *world.World) (d world.Decision, err error) {
		for _, l := range w.Due {
			p := world.Placement{Layer: l}
			for u := range w.Layers[l].Units {
				p.Replicas = append(p.Replicas, world.Replica{Unit: u, Host: 1})
			}
			d.Layers = append(d.Layers, p)
		}
		return d, nil
	}
	defer registry.Register(registry.Policy{Name: "stack", About: "all on the second host", Uses: registry.Hosts, Decide: stack})()
	k := plan.Known{
		Model: plan.Model{MoELayers: []int{1, 3}, Experts: 2, ExpertBytes: 10}, Settings: plan.Settings{Policy: "stack", Grouping: plan.ByHost, Replicas: 1},
		Hosts: []plan.Host{{ID: "b", Budget: 40}, {ID: "c", Budget: 9}, {ID: "a"}},
	}
	d, err := By("stack")(k)
	if err != nil || len(d.Layers) != 2 || d.Layers[1].Layer != 3 || len(d.Layers[1].Functions) != 1 || d.Layers[1].Functions[0].Placements[0].Host != "b" {
		t.Errorf("%v, %v", d, err)
	}
	k.Hosts[0].Budget = 30
	if _, err := By("stack")(k); err == nil || !strings.Contains(err.Error(), "policy stack wants 20 bytes of layer 3 on host b, which has 10 left") {
		t.Error(err)
	}
	k.Hosts = k.Hosts[1:2]
	if _, err := By("stack")(k); !errors.Is(err, static.ErrNoRoom) {
		t.Error(err)
	}
	if d, err := By("static")(k); err == nil {
		t.Errorf("%v", d)
	}
}
