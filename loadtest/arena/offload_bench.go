package arena

import (
	"context"
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// offloadBench runs what there is to run on one traffic.
type offloadBench struct {
	Offload
	ctx       context.Context
	job       offloadJob
	bed       offload.Testbed
	traffic   offload.Traffic
	lines     []OffloadLine
	served    []OnlineServed
	entropies []OffloadEntropy
	picture   *OffloadPicture // of one traffic of each shape
	first     *offload.Lab    // all others are of it
}

// lab serves the first texts, in batches.
func (b *offloadBench) lab(bed offload.Testbed, served, batch int) (lab *offload.Lab, err error) {
	if b.first == nil {
		if b.first, err = offload.NewLab(b.traffic, bed, offload.DefaultDelays(), b.Distance, b.Capacity, batch); err != nil {
			return nil, err
		}
	}
	return b.first.Serve(bed, served, batch)
}

// all are all parts.
func (b *offloadBench) all() error {
	lab, err := b.lab(b.bed, b.Texts.Served, 1)
	if err != nil {
		return err
	}
	if err := b.budgets(lab, append(offload.Policies(), offload.Asynchronous()...), b.Budgets...); err != nil || !b.Variants {
		return err
	}
	patterns, orders := offload.Ablation()
	parts := []func() error{
		func() error { return b.each(lab, partPatterns, patterns, b.middle(), 0) },
		func() error { return b.each(lab, partOrders, orders, b.middle(), 0) },
		func() error { return b.distances(lab) },
		func() error { return b.halves(lab) },
	}
	if b.job.seed == b.Seed { // what varies little from seed to seed, or takes long
		parts = append(parts, b.capacities, b.batches, b.shared, b.below, b.prompts, b.constants)
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (b *offloadBench) atMiddle() error { return b.only(b.middle()) }

// unforeseen are all policies with all budgets, and batches.
func (b *offloadBench) unforeseen() error {
	if err := b.only(b.Budgets...); err != nil {
		return err
	}
	return b.batches()
}

// halves say how much of the gap to the limit is for want of knowing what comes, and how much for want of knowing what
// is to be kept.
func (b *offloadBench) halves(lab *offload.Lab) error {
	for _, gb := range b.Budgets {
		if err := b.each(lab, partHalves, offload.Halves(), gb, 0); err != nil {
			return err
		}
	}
	return nil
}

func (b *offloadBench) only(budgets ...float64) error {
	lab, err := b.lab(b.bed, b.Texts.Served, 1)
	if err != nil {
		return err
	}
	return b.budgets(lab, append(offload.Policies(), offload.Asynchronous()...), budgets...)
}

func (b *offloadBench) budgets(lab *offload.Lab, policies []offload.Policy, budgets ...float64) error {
	for _, gb := range budgets {
		if err := b.each(lab, partBudget, policies, gb, 0); err != nil {
			return err
		}
	}
	return nil
}

// each runs policies.
func (b *offloadBench) each(lab *offload.Lab, part string, policies []offload.Policy, gb, value float64) error {
	from := len(b.lines)
	for _, p := range policies {
		if _, err := b.one(lab, part, p, gb, value); err != nil {
			return err
		}
	}
	b.floors(b.lines[from:])
	return nil
}

// one runs a policy.
func (b *offloadBench) one(lab *offload.Lab, part string, p offload.Policy, gb, value float64) (*offload.Result, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	budget := lab.Budget(gb * gigabyte)
	r, err := lab.Run(p, budget)
	if err != nil {
		return nil, err
	}
	f, err := lab.Foresee(p)
	if err != nil {
		return nil, err
	}
	l := offloadLine(r, f)
	l.Part, l.Shape, l.Routing, l.Seed, l.Policy, l.Budget, l.Value = part, b.job.shape, b.job.routing, b.job.seed, p.Name, gb, value
	l.Fits = budget >= lab.All()
	l.Links = l.Loads * 1e6 / lab.Link.Bandwidth / float64(lab.Hosts) * 1e3
	l.Predicting = lab.Predicting(p) * 1e3
	if p.Order == offload.Belady && p.Predictor == offload.Nothing {
		l.Floor = r.Floor(lab.Link.Bandwidth) * 1e3
	}
	b.lines = append(b.lines, l)
	return r, nil
}

// floors gives all lines the floor that Belady's order has found beside them.
func (b *offloadBench) floors(lines []OffloadLine) {
	at := slices.IndexFunc(lines, func(l OffloadLine) bool { return l.Floor > 0 })
	for i := range lines {
		if at >= 0 {
			lines[i].Floor = lines[at].Floor
		}
	}
}

// some are the policies of these names.
func some(names ...string) (all []offload.Policy, err error) {
	for _, name := range names {
		p, err := offload.Find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// distances vary how far ahead is predicted (figures 4 and 13).
func (b *offloadBench) distances(lab *offload.Lab) error {
	policies, err := some(offload.FMoE, offload.Ours, offload.Limit, "promoe")
	if err != nil {
		return err
	}
	for _, d := range distances {
		if d >= lab.Layers {
			continue
		}
		further, err := lab.Further(d)
		if err != nil {
			return err
		}
		if err := b.each(further, partDistance, policies, b.middle(), float64(d)); err != nil {
			return err
		}
	}
	return nil
}

// manyTexts leave as many maps as the largest stores hold.
const manyTexts = 128

// capacities vary how many maps there are (figure 14a).
func (b *offloadBench) capacities() error {
	policies, err := some(offload.FMoE)
	if err != nil {
		return err
	}
	many := *b
	if b.job.routing == routingFitted {
		texts := b.Texts
		texts.Before = max(texts.Before, manyTexts)
		if many.traffic, err = offload.Synthetic(b.traffic.Model, b.Routing, texts, b.job.seed); err != nil {
			return err
		}
	}
	maps := 0
	for _, t := range many.traffic.Before {
		maps += t.N - t.Prompt + 1
	}
	for i, c := range capacities {
		if i > 0 && capacities[i-1] >= maps {
			break // the store was not full
		}
		few := many
		few.Capacity, few.lines, few.first = c, nil, nil
		lab, err := few.lab(b.bed, b.Texts.Served, 1)
		if err != nil {
			return err
		}
		if err := few.each(lab, partCapacity, policies, b.middle(), float64(c)); err != nil {
			return err
		}
		m, err := lab.Maps()
		if err != nil {
			return err
		}
		for i := range few.lines {
			few.lines[i].Semantic, few.lines[i].Trajectory = m.Semantic, m.Trajectory
			few.lines[i].Pearson, few.lines[i].PearsonSemantic = m.Pearson(b.Distance), m.PearsonSemantic(b.Distance)
		}
		b.lines = append(b.lines, few.lines...)
	}
	return nil
}

// batches vary how many sequences are served together (figure 14b).
func (b *offloadBench) batches() error {
	policies, err := some(offload.Held, offload.OnDemand, "mixtral-offloading", "promoe", "moe-infinity", offload.FMoE, offload.Ours, offload.Unfetched, offload.Floor, offload.FarLimit)
	if err != nil {
		return err
	}
	for _, n := range batches {
		if n > len(b.traffic.Served) {
			break
		}
		lab, err := b.lab(b.bed, max(n, min(b.Texts.Served, n*2)), n)
		if err != nil {
			return err
		}
		if err := b.each(lab, partBatch, policies, b.middle(), float64(n)); err != nil {
			return err
		}
	}
	return nil
}

// shared has one link for all hosts.
func (b *offloadBench) shared() error {
	bed := b.bed
	bed.Shared = bed.Link.Bandwidth
	lab, err := b.lab(bed, min(b.Texts.Served, 4), 1)
	if err != nil {
		return err
	}
	return b.each(lab, partShared, offload.Policies(), b.middle(), 0)
}

// What the part of a tier below has: memory for half of the experts, which a store fills as a PCIe 4.0 drive
// would; both are assumed.
const (
	belowShare   = 0.5
	belowRate    = 7e9
	belowLatency = 100e-6
)

// below has hosts' experts come from a memory that has some of them.
func (b *offloadBench) below() error {
	lab, err := b.lab(b.lowered(), min(b.Texts.Served, 4), 1)
	if err != nil {
		return err
	}
	return b.each(lab, partBelow, offload.Policies(), b.middle(), 0)
}

// lowered is the testbed with that memory.
func (b *offloadBench) lowered() offload.Testbed {
	bed := b.bed
	bed.Below = offload.Below{Bytes: belowShare * b.traffic.All(), Link: cost.Link{Latency: belowLatency, Bandwidth: belowRate}}
	return bed
}

// prompts vary what the rows of prompts leave in stores of maps.
func (b *offloadBench) prompts() error {
	policies, err := some(offload.FMoE)
	if err != nil {
		return err
	}
	for _, kind := range []offload.Prompts{offload.MeanMap, offload.LastMap, offload.EveryMap} {
		t := b.traffic
		t.Prompts, t.Served = kind, t.Served[:b.Texts.Served]
		lab, err := offload.NewLab(t, b.bed, offload.DefaultDelays(), b.Distance, b.Capacity, 1)
		if err != nil {
			return err
		}
		if err := b.each(lab, partPrompts, policies, b.middle(), 0); err != nil {
			return err
		}
		b.lines[len(b.lines)-1].Constant = string(kind)
	}
	return nil
}
