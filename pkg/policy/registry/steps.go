package registry

import (
	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Both decides by a policy for replicas and one for their hosts.
func Both(s scale.Policy, p place.Policy) Decide {
	return Within(nil, s, p)
}

// Within is Both with a bound of the replicas beyond each expert's first, by the number of
// experts; nil is none but their room.
func Within(bound func(experts int) int, s scale.Policy, p place.Policy) Decide {
	return func(w *world.World) (d world.Decision, err error) {
		for _, at := range w.Due {
			l := &w.Layers[at]
			spare := l.Spare
			if bound != nil {
				spare = min(spare, bound(len(l.Units)))
			}
			fleet := Fleet(w, l)
			placed, err := p(place.State{Experts: scaled(w, l, s, spare, len(fleet)), Hosts: fleet, Previous: Warm(w, l)})
			if err != nil {
				return world.Decision{}, err
			}
			d.Layers = append(d.Layers, Placed(w, at, placed))
		}
		return d, nil
	}
}

// scaled are the experts with as many replicas as a policy gives them.
func scaled(w *world.World, l *world.Layer, policy scale.Policy, spare, hosts int) []place.Expert {
	rows := l.Rows()
	experts := make([]scale.Expert, len(l.Units))
	for e, u := range l.Units {
		experts[e] = scale.Expert{ID: uint32(e), Bytes: u.Bytes}
		if rows != nil {
			experts[e].Load = rows[e]
		}
	}
	d := policy(experts, scale.Settings{CV: w.CV, MemoryCap: uint64(spare) * l.Largest(), MaxReplicas: hosts})
	to := make([]place.Expert, len(d.Experts))
	for e, s := range d.Experts {
		to[e] = place.Expert{ID: s.ID, Replicas: s.Replicas, LoadEach: s.LoadEach, Bytes: experts[e].Bytes, Node: s.Node}
	}
	return to
}

// Fleet are the hosts that are not gone, with a layer's room, as policies of placement take them.
func Fleet(w *world.World, l *world.Layer) []place.Host {
	fleet := make([]place.Host, 0, len(w.Hosts))
	for h := range w.Hosts {
		if w.Hosts[h].Health == world.Gone {
			continue
		}
		one := place.Host{ID: w.Hosts[h].ID}
		if h < len(l.Room) {
			one.Capacity = l.Room[h]
		}
		fleet = append(fleet, one)
	}
	return fleet
}

// Warm is what hosts hold of a layer, or load, as policies of placement take it.
func Warm(w *world.World, l *world.Layer) []place.Warm {
	warm := make([]place.Warm, len(l.Held))
	for i, x := range l.Held {
		warm[i] = place.Warm{Expert: uint32(x.Unit), Host: w.Hosts[x.Host].ID}
	}
	return warm
}

// Placed is a placement of experts as a decision has it.
func Placed(w *world.World, layer int, p place.Placement) world.Placement {
	d := world.Placement{Layer: layer, Replicas: make([]world.Replica, len(p.Replicas))}
	for i, r := range p.Replicas {
		h, _ := w.Host(r.Host) // the placement is of its hosts
		d.Replicas[i] = world.Replica{Unit: int(r.Expert), Host: h}
	}
	return d
}
