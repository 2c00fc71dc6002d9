package arena

import (
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
)

func (r *OffloadReport) conclude() {
	for _, at := range r.places() {
		for _, policy := range []string{offload.FMoE, offload.Ours} {
			for _, s := range []stated{ttft, tpot, hits} {
				r.claim(at, policy, r.Middle, s)
			}
			if r.Middle != 6 {
				r.claim(at, policy, 6, cramped)
			}
			for _, gb := range r.Budgets {
				r.gap(at, policy, gb)
			}
		}
		if at.routing == routingUnpredictable {
			for _, gb := range r.Budgets {
				at.budget = gb
				r.bound(at, 1)
			}
		}
	}
	for _, at := range r.places() {
		for _, n := range batches {
			at.part, at.budget, at.value = partBatch, r.Middle, float64(n)
			r.bound(at, n)
		}
	}
}

// places are the shapes and routings that all policies ran with.
func (r *OffloadReport) places() (all []offloadKey) {
	known := map[offloadKey]bool{}
	for _, l := range r.Lines {
		k := offloadKey{part: partBudget, shape: l.Shape, routing: l.Routing}
		if l.Part == partBudget && !known[k] {
			known[k], all = true, append(all, k)
		}
	}
	return all
}

func (r *OffloadReport) named(at offloadKey, policy string, gb float64) []*OffloadLine {
	at.policy, at.budget = policy, gb
	return r.of(at)
}

func (r *OffloadReport) claim(at offloadKey, policy string, gb float64, s stated) {
	for i, baseline := range paperBaselines {
		ours, theirs := r.named(at, policy, gb), r.named(at, baseline, gb)
		if mean, half, ok := change(ours, theirs, s.of); ok {
			r.Claims = append(r.Claims, OffloadClaim{
				Shape: at.shape, Routing: at.routing, Policy: policy, Against: baseline, What: s.what, Budget: gb,
				Ours: meanOf(ours, s.of), Theirs: meanOf(theirs, s.of), Change: mean, Low: mean - half, High: mean + half, Paper: s.changes[i],
			})
		}
	}
}

func (r *OffloadReport) gap(at offloadKey, policy string, gb float64) {
	g := OffloadGap{Shape: at.shape, Routing: at.routing, Budget: gb, Policy: policy}
	for _, baseline := range baselines() {
		lines := r.named(at, baseline, gb)
		if t := meanOf(lines, tpot.of); len(lines) > 0 && (g.Best == "" || t < g.BestTPOT) {
			g.Best, g.BestTPOT = baseline, t
		}
	}
	ours, limit := r.named(at, policy, gb), r.named(at, offload.FarLimit, gb)
	if len(ours) == 0 || len(limit) == 0 || g.Best == "" {
		return
	}
	g.TPOT, g.Limit, g.Floor = meanOf(ours, tpot.of), meanOf(limit, tpot.of), meanOf(limit, func(l *OffloadLine) float64 { return l.Floor })
	if d := g.BestTPOT - g.Limit; d > 1e-9 {
		g.Closed = (g.BestTPOT - g.TPOT) / d
	}
	r.Gaps = append(r.Gaps, g)
}

// unprefetched are policies that prefetch, and what each is without that.
var unprefetched = [][2]string{{offload.Ours, offload.Unfetched}, {offload.FMoE, offload.OnDemand}, {"promoe", offload.OnDemand}}

// bound compares policies with what they are without prefetching, of lines with so many sequences together.
func (r *OffloadReport) bound(at offloadKey, batch int) {
	moved := func(l *OffloadLine) float64 { return l.Loads }
	for _, pair := range unprefetched {
		ours, theirs := r.named(at, pair[0], at.budget), r.named(at, pair[1], at.budget)
		mean, half, ok := change(ours, theirs, tpot.of)
		if !ok {
			continue
		}
		b := OffloadBound{
			Shape: at.shape, Routing: at.routing, Batch: float64(batch), Budget: at.budget, Policy: pair[0], Against: pair[1],
			Times: 1 + mean, Low: 1 + mean - half, High: 1 + mean + half, Wasted: meanOf(ours, func(l *OffloadLine) float64 { return l.Wasted }),
		}
		if m := meanOf(theirs, moved); m > 0 {
			b.Unneeded = meanOf(ours, moved) / m
		}
		r.Bounds = append(r.Bounds, b)
	}
}

// baselines are the paper's, and its synchronous ones without their waiting.
func baselines() (names []string) {
	for _, p := range append(offload.Policies(), offload.Asynchronous()...) {
		if p.Baseline || slices.ContainsFunc(offload.Asynchronous(), func(a offload.Policy) bool { return a.Name == p.Name }) {
			names = append(names, p.Name)
		}
	}
	return names
}
