package sim

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Policy is what is compared.
type Policy = registry.Policy

// What a policy may know.
const (
	Past  = registry.Past
	Ahead = registry.Ahead
	Exact = registry.Exact
)

// Policies are those that are compared, in the order of reports.
func Policies() []Policy { return registry.All(registry.Simulated) }

// takes is what accesses take, the messages of their rows included.
func (s Settings) takes() cost.Device {
	d, m := s.believed().Compute(), s.messages(s.believed())
	if !s.Apart {
		m.Each = 0 // a host's accesses share a message
	}
	d.Timer = cost.Sent{Timer: d.Timer, Messages: m}
	return d
}

func (s Settings) messages(p *profiles.Profile) cost.Messages {
	return cost.Messages{Each: s.MessageSeconds, Row: 2 * p.Beta.Value}
}

// world is what policies know before the first rows come.
func (s Settings) world() (*world.World, error) {
	p := s.Model.Profile
	layers := make([]world.Layer, s.Model.Layers)
	for l := range layers {
		layers[l].Number = l
		for x := range s.Model.Experts {
			layers[l].Units = append(layers[l].Units, world.Unit{Unit: unit.Expert(l, x), Bytes: uint64(p.Expert())})
		}
	}
	w, err := world.New(layers...)
	if err != nil {
		return nil, err
	}
	w.Takes, w.CV = s.takes(), s.CV
	var members world.Members
	for h := range s.Hosts {
		members = append(members, world.Host{ID: hostID(h), Tiers: []world.Tier{{
			Bytes: uint64(p.Memory()), Link: s.believed().Link(),
		}}})
	}
	if err := w.Observe(members); err != nil {
		return nil, err
	}
	for l := range layers {
		if err := w.Observe(s.room(l, nil)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// room is a layer's share of the memory of the hosts that are not gone.
func (s Settings) room(l int, gone []int) world.Room {
	r := world.Room{Layer: l, Bytes: make([]uint64, s.Hosts), Spare: s.slots(l)*(s.Hosts-len(gone)) - s.Model.Experts}
	for h := range r.Bytes {
		if !slices.Contains(gone, h) {
			r.Bytes[h] = uint64(s.slots(l)) * uint64(s.Model.Profile.Expert())
		}
	}
	return r
}
