package residency

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Fit shares the experts of a dispatch for a function out to groups, each of which the device
// can hold; nil if it can hold all of them at once. What the device holds now comes first.
func (r *Residency) Fit(f *Function, experts []uint32) (groups [][]uint32) {
	t := r.table
	if !t.Offload {
		return nil
	}
	t.Lock()
	defer t.Unlock()
	budget := t.Device.Memory().Budget
	if !f.offloaded || budget == 0 {
		return nil
	}
	budget -= t.pinned(nil)
	ids, bytes := f.needs(experts), int64(0)
	for _, id := range ids {
		bytes += t.memory.size(id)
	}
	if bytes <= budget {
		return nil
	}
	slices.SortStableFunc(ids, func(a, b forward.ExpertID) int { return t.memory.absent(a) - t.memory.absent(b) })
	left := int64(0)
	for _, id := range ids {
		size := t.memory.size(id)
		if size > left {
			groups, left = append(groups, nil), budget
		}
		left -= size
		last := len(groups) - 1
		groups[last] = append(groups[last], uint32(id.Expert))
	}
	return groups
}
