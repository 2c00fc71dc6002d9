package residency

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ByPhase counts the host's functions by their phases, as the metrics name them; "kept" are
// warm ones that take no rows.
func (r *Residency) ByPhase() map[string]float64 {
	out := map[string]float64{"kept": 0}
	for _, name := range phaseNames {
		out[name] = 0
	}
	r.table.Lock()
	defer r.table.Unlock()
	for _, f := range r.table.functions {
		out[f.phase()]++
	}
	return out
}

// ColdStarts is how often rows have found functions cold, and for how long rows have waited
// for such ones, added up.
func (r *Residency) ColdStarts() (n uint64, waited time.Duration) {
	r.table.Lock()
	defer r.table.Unlock()
	return r.table.coldStarts, r.table.coldWait
}

// Loads tells of the host's functions, by layer, what they have computed since it was last
// called.
func (r *Residency) Loads() map[uint32][]*pb.FunctionLoad {
	out := map[uint32][]*pb.FunctionLoad{}
	r.table.Lock()
	defer r.table.Unlock()
	for _, f := range r.table.functions {
		out[uint32(f.layer)] = append(out[uint32(f.layer)], f.tell())
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b *pb.FunctionLoad) int { return cmp.Compare(a.Id, b.Id) })
	}
	return out
}

// Remaining says in words which functions are wanted here and not warm yet, as far as there
// is a plan; empty: none.
func (r *Residency) Remaining() string {
	t := r.table
	t.Lock()
	defer t.Unlock()
	if have := t.plans.layers(); have < t.Layers {
		return fmt.Sprintf("%d of %d layers have a plan", have, t.Layers)
	}
	waiting, first := 0, (*Function)(nil)
	for _, f := range t.functions {
		if f.lacks() {
			if waiting++; first == nil || cmp.Or(cmp.Compare(f.layer, first.layer), cmp.Compare(f.spec.Id, first.spec.Id)) < 0 {
				first = f
			}
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d, among them function %s of layer %d", waiting, len(t.functions), first.spec.Id, first.layer)
}

// Serves says whether rows for an expert may come here.
func (r *Residency) Serves(layer, expert int) bool {
	r.table.Lock()
	defer r.table.Unlock()
	for _, f := range r.table.functions {
		if f.layer == layer && f.spec.Kind != plan.United && f.want != nothing && f.want != kept && slices.Contains(f.spec.Experts, uint32(expert)) {
			return true
		}
	}
	return false
}

// Any says whether the host has functions at all.
func (r *Residency) Any() bool {
	r.table.Lock()
	defer r.table.Unlock()
	return len(r.table.functions) > 0
}
