package alone

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Stays reports whether the plan in force is one that a scaler has made by loads, and every layer of it was written, or found
// right, under these settings: a layer that says others is of a plan for those, so that what is in force may be a mix. A
// layer that does not say its settings is taken to be of before.
func Stays(k plan.Known, before plan.Settings) bool {
	byLoad := false
	for _, l := range k.InForce {
		byLoad = byLoad || l.GetPolicy() != ""
		under := before
		if s := l.GetSettings(); s != nil {
			under = plan.SettingsOf(s)
		}
		if under != k.Settings {
			return false
		}
	}
	return byLoad
}

// Mend keeps the plan in force, but for what is on hosts that are gone: a function without a
// host gets the one with most room. It has no answer if a layer has no plan, or what is
// without a host fits nowhere.
func Mend(k plan.Known) (*plan.Decision, error) {
	m := mender{k: k, left: map[string]uint64{}, used: map[string]uint64{}, bytes: max(1, k.Model.ExpertBytes)}
	for _, h := range k.Hosts {
		m.left[h.ID] = cmp.Or(h.Budget, math.MaxUint64)
	}
	for _, l := range k.InForce {
		m.occupy(l.LayerPlan)
	}
	d := &plan.Decision{}
	for _, number := range k.Model.MoELayers {
		in := k.InForce[number]
		if in == nil {
			return nil, fmt.Errorf("layer %d has no plan to mend", number)
		}
		lp, err := m.layer(in.LayerPlan)
		if err != nil {
			return nil, err
		}
		d.Layers = append(d.Layers, lp)
	}
	return d, nil
}

type mender struct {
	k          plan.Known
	left, used map[string]uint64 // bytes of each host that is here
	bytes      uint64            // an expert's
}

// occupy enters what is planned on hosts that are here.
func (m *mender) occupy(lp *pb.LayerPlan) {
	for _, f := range lp.Functions {
		for _, p := range f.Placements {
			m.take(p.Host, m.size(f))
		}
	}
}

func (m *mender) size(f *pb.Function) uint64 { return uint64(max(1, len(f.Experts))) * m.bytes }

func (m *mender) take(host string, bytes uint64) {
	if left, here := m.left[host]; here {
		m.left[host] -= min(left, bytes)
		m.used[host] += bytes
	}
}

// layer is a layer's plan without hosts that are gone; as it is, if there are none.
func (m *mender) layer(in *pb.LayerPlan) (*pb.LayerPlan, error) {
	lp, mended := proto.CloneOf(in), 0
	for _, f := range lp.Functions {
		before := len(f.Placements)
		f.Placements = slices.DeleteFunc(f.Placements, func(p *pb.Placement) bool { _, here := m.left[p.Host]; return !here })
		if len(f.Placements) == before {
			continue
		}
		mended++
		if served(f) {
			continue
		}
		if err := m.place(f); err != nil {
			return nil, fmt.Errorf("layer %d: %w", in.Layer, err)
		}
	}
	if mended == 0 {
		return in, nil
	}
	lp.Reason = fmt.Sprintf("%s: no scaler is here, so the plan stays; %d functions mended that were on hosts that are gone", cmp.Or(in.Policy, "static"), mended)
	return lp, nil
}

// served reports whether a host is in a function's group.
func served(f *pb.Function) bool {
	return slices.ContainsFunc(f.Placements, func(p *pb.Placement) bool { return p.Want != pb.Want_WANT_KEPT })
}

// place gives a function a host: one that keeps it, or the one with most room.
func (m *mender) place(f *pb.Function) error {
	if len(f.Placements) > 0 {
		f.Placements[0].Want = pb.Want_WANT_WARM
		return nil
	}
	best, need := "", m.size(f)
	for _, h := range slices.Sorted(maps.Keys(m.left)) {
		if m.left[h] >= need && (best == "" || m.used[h] < m.used[best]) {
			best = h
		}
	}
	if best == "" {
		return fmt.Errorf("function %s of %d bytes fits on none of %d hosts", f.Id, need, len(m.left))
	}
	m.take(best, need)
	f.Placements = []*pb.Placement{{Host: best, Want: pb.Want_WANT_WARM}}
	return nil
}
