package testplan

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// StackingPolicy gives every expert so many replicas, side by side.
func StackingPolicy() registry.Policy {
	return registry.Policy{
		Name: "side-by-side", About: "for tests: so many replicas of every expert, on hosts that follow each other",
		Settings: []registry.Setting{{Name: "replicas", Kind: registry.Count, Default: 1, Min: 1, Max: 8, Help: "replicas of every expert"}},
		Make:     func(p *registry.Policy, v registry.Values) { p.Decide = decide(int(v["replicas"])) },
		Scale:    scale.Static, Place: place.RoundRobin,
		Uses: registry.Live | registry.Simulated | registry.Hosts | registry.Scaling | registry.Placing,
		Sees: registry.Ahead,
	}
}

func decide(replicas int) registry.Decide {
	return func(w *world.World) (d world.Decision, err error) {
		for _, at := range w.Due {
			p := world.Placement{Layer: at}
			for u := range w.Layers[at].Units {
				for r := range min(replicas, len(w.Hosts)) {
					p.Replicas = append(p.Replicas, world.Replica{Unit: u, Host: (u + r) % len(w.Hosts)})
				}
			}
			d.Layers = append(d.Layers, p)
		}
		return d, nil
	}
}
