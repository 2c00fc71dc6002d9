// Package alone has hosts plan among themselves, without a scaler and without loads, by a
// policy that the settings of plans name.
package alone

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/policy/world"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// By is how hosts plan by a policy of the registry. One that never decides keeps the
// initial placement, which the settings are of.
func By(name string) func(plan.Known) (*plan.Decision, error) {
	p, err := registry.Choose(name, registry.Hosts)
	switch {
	case err != nil:
		return func(plan.Known) (*plan.Decision, error) { return nil, err }
	case p.Decide == nil:
		return static.Plan
	}
	return func(k plan.Known) (*plan.Decision, error) { return decided(k, p) }
}

// decided asks a policy about one layer after the other, each with the memory that those
// before it have left, and with no loads.
func decided(k plan.Known, p registry.Policy) (*plan.Decision, error) {
	w, left, err := worldOf(k)
	if err != nil {
		return nil, err
	}
	d := &plan.Decision{}
	for at, l := range w.Layers {
		if err := w.Observe(world.Room{Layer: at, Bytes: slices.Clone(left), Spare: k.Model.Experts * (k.Settings.Replicas - 1)}); err != nil {
			return nil, err
		}
		w.Due = []int{at}
		decision, err := p.Decide(w)
		if err == nil {
			err = decision.Check(w)
		}
		if err != nil {
			return nil, fmt.Errorf("policy %s, layer %d: %w", p.Name, l.Number, err)
		}
		wanted := make([][]*pb.Placement, len(l.Units))
		for h, bytes := range takes(w, at, decision, wanted) {
			if bytes > left[h] {
				return nil, fmt.Errorf("policy %s wants %d bytes of layer %d on host %s, which has %d left", p.Name, bytes, l.Number, w.Hosts[h].ID, left[h])
			}
			left[h] -= bytes
		}
		d.Layers = append(d.Layers, &pb.LayerPlan{
			Layer: uint32(l.Number), Functions: plan.Group(l.Number, k.Settings.Grouping, wanted),
			Reason: fmt.Sprintf("%s: %d hosts, grouping %s, replicas %d", p.Name, len(w.Hosts), k.Settings.Grouping, k.Settings.Replicas),
		})
	}
	return d, nil
}

// takes are the bytes of each host that a layer takes; wanted gets the units' placements.
func takes(w *world.World, layer int, d world.Decision, wanted [][]*pb.Placement) []uint64 {
	bytes := make([]uint64, len(w.Hosts))
	for _, p := range d.Layers {
		for _, r := range p.Replicas {
			id := w.Hosts[r.Host].ID
			there := slices.ContainsFunc(wanted[r.Unit], func(p *pb.Placement) bool { return p.Host == id })
			if p.Layer != layer || there {
				continue
			}
			wanted[r.Unit] = append(wanted[r.Unit], &pb.Placement{Host: id, Want: pb.Want_WANT_WARM})
			bytes[r.Host] += w.Layers[layer].Units[r.Unit].Bytes
		}
	}
	for _, on := range wanted {
		slices.SortFunc(on, func(a, b *pb.Placement) int { return cmp.Compare(a.Host, b.Host) })
	}
	return bytes
}

// worldOf is what is known, and the bytes of each host. Hosts that hold no unit are left out.
func worldOf(k plan.Known) (*world.World, []uint64, error) {
	bytes := max(1, k.Model.ExpertBytes)
	var layers []world.Layer
	for _, l := range k.Model.MoELayers {
		y := world.Layer{Number: l}
		for e := range k.Model.Experts {
			y.Units = append(y.Units, world.Unit{Unit: unit.Expert(l, e), Bytes: bytes})
		}
		layers = append(layers, y)
	}
	w, err := world.New(layers...)
	if err != nil {
		return nil, nil, err
	}
	var members world.Members
	var left []uint64
	for _, h := range slices.SortedFunc(slices.Values(k.Hosts), func(a, b plan.Host) int { return cmp.Compare(a.ID, b.ID) }) {
		if h.Budget > 0 && h.Budget < bytes {
			continue
		}
		one := world.Host{ID: h.ID, Tiers: []world.Tier{{Bytes: h.Budget}}}
		if h.Throttles {
			one.Health = world.Throttles
		}
		members = append(members, one)
		left = append(left, cmp.Or(h.Budget, math.MaxUint64))
	}
	if len(members) == 0 {
		return nil, nil, fmt.Errorf("%w: none of %d hosts holds a unit of %d bytes; give them more --expert-memory", static.ErrNoRoom, len(k.Hosts), bytes)
	}
	return w, left, w.Observe(members)
}
