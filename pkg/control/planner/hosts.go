package planner

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxExpertBytes and maxExperts bound what a host is believed to count.
const (
	maxExpertBytes = 1 << 40
	maxExperts     = 1 << 20
)

// hosts are the members that may be given experts, and the bytes of one that their
// budgets are in: what most of them say, or else own. A host on another device
// counts other bytes for the same expert, and holds as many as by its own.
func hosts(all []*pb.Member, m plan.Model) (out []plan.Host, bytes uint64) {
	all = slices.DeleteFunc(slices.Clone(all), func(m *pb.Member) bool { return m.Draining })
	bytes = common(all, m.ExpertBytes)
	for _, h := range all {
		budget := h.MemoryBudgetBytes
		each := expertBytes(h)
		if each != 0 && each != bytes && budget > 0 {
			budget = max(1, min(budget/each, maxExperts)*bytes)
		}
		out = append(out, plan.Host{ID: h.Id, Budget: budget, Throttles: h.Stats[members.DeviceThrottled] > 0, United: offers(h, m, each, bytes)})
	}
	return out, bytes
}

// offers are the united experts that a host can load, in the bytes that all budgets are in.
func offers(h *pb.Member, m plan.Model, each, bytes uint64) (all []plan.Offer) {
	for _, u := range h.GetUnited()[:min(len(h.GetUnited()), maxOffers)] {
		if o, ok := plan.OfferOf(u, m.Experts, len(m.MoELayers)); ok {
			if each != 0 && each != bytes {
				o.Bytes = max(1, uint64(float64(o.Bytes)/float64(each)*float64(bytes)))
			}
			all = append(all, o)
		}
	}
	return all
}

// maxOffers bounds the bundles of a host.
const maxOffers = 64

// common is the median of the bytes that hosts count for an expert.
func common(all []*pb.Member, own uint64) uint64 {
	var each []uint64
	for _, m := range all {
		if n := expertBytes(m); n != 0 {
			each = append(each, n)
		}
	}
	if len(each) == 0 {
		return own
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// expertBytes are a host's for an expert; 0 if it does not say, or what cannot be.
func expertBytes(m *pb.Member) uint64 {
	if n := m.GetExpertBytes(); n <= maxExpertBytes {
		return n
	}
	return 0
}
