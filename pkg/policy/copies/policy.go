package copies

import (
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

const (
	// atOnce is the part of the time of a load that it must save a layer at once: the
	// replica stays, and saves more.
	atOnce = 0.05
	// lean are the seconds for which moeless+lean keeps unneeded replicas: as long as the
	// model's layers take to have their turn, some times over.
	lean = 2
)

// Policies are moeless+ and moeless+lean.
func Policies() []registry.Policy {
	return []registry.Policy{
		form("moeless+", "experts of the busiest host copied where that ends a layer sooner than their loads cost, by what accesses take", 0),
		form("moeless+lean", "the same; unneeded replicas are kept for 2 s only", lean),
	}
}

func form(name, about string, keepAlive float64) registry.Policy {
	return registry.Policy{
		Name: name, About: about, Uses: registry.Live | registry.Simulated, ToZero: true, Sees: registry.Ahead, Corrects: true, Divides: true, KeepAlive: keepAlive,
		Settings: []registry.Setting{{
			Name: "gain", Kind: registry.Ratio, Default: atOnce, Min: 0, Max: 100, Help: "part of a load's time that a replica has to save a layer at once",
		}},
		Make: func(p *registry.Policy, v registry.Values) { p.Decide = by(v["gain"]) },
	}
}

// by decides what to load beside what is warm.
func by(gain float64) registry.Decide {
	return func(w *world.World) (d world.Decision, err error) {
		for _, at := range w.Due {
			l := &w.Layers[at]
			rows, experts := l.Rows(), make([]Expert, len(l.Units))
			for e, u := range l.Units {
				experts[e] = Expert{ID: uint32(e), Bytes: u.Bytes}
				if rows != nil {
					experts[e].Load = rows[e]
				}
			}
			s := Settings{Device: w.Takes, Gain: gain * w.Hosts[0].Tiers[0].Seconds(float64(l.Largest())), Spare: l.Spare}
			p, err := Decide(State{Experts: experts, Hosts: registry.Fleet(w, l), Warm: registry.Warm(w, l)}, s)
			if err != nil {
				return world.Decision{}, err
			}
			d.Layers = append(d.Layers, registry.Placed(w, at, p))
		}
		return d, nil
	}
}
