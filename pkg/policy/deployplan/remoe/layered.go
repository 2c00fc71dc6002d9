package remoe

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Layered is Best with a share of remote experts of each layer's own: from Best on, layer after
// layer sends more or fewer experts away as long as that makes the plan cheaper and breaks no
// limit. It is nil where Best is.
func Layered(s *serverless.System, r Request, d *serverless.Demand, set Settings) *Decision {
	best := Best(s, r, d, set)
	if best == nil {
		return nil
	}
	x := layers{System: s, r: r, d: d, set: set, best: best, away: make([]int, s.Layers)}
	for l := range x.away {
		x.away[l] = best.Layers[l].Size()
	}
	for step := max(1, s.Experts/8); step > 0; step /= 2 {
		for l := range x.away {
			if !x.move(l, step) {
				x.move(l, -step)
			}
		}
	}
	return x.best
}

// layers are a plan's shares of remote experts on their way to better ones.
type layers struct {
	*serverless.System
	r    Request
	d    *serverless.Demand
	set  Settings
	away []int
	best *Decision
}

// move has so many more experts of a layer leave, once and again as long as that helps.
func (x *layers) move(l, step int) (helped bool) {
	for {
		away := slices.Clone(x.away)
		if away[l] += step; away[l] < 0 || away[l] > x.Experts || !x.try(away) {
			return helped
		}
		x.away, helped = away, true
	}
}

// try has a plan with such shares take the place of the best one, if it is better: with the host's
// memory that that has, or the least that holds the local experts.
func (x *layers) try(away []int) (better bool) {
	local, all := 0.0, 0
	for _, n := range away {
		local, all = local+float64(x.Experts-n)*x.Expert, all+n
	}
	need := local + x.Token*float64(x.d.Prompt+x.d.Output)
	least := slices.IndexFunc(x.System.Main, func(size float64) bool { return size >= need })
	if least < 0 {
		return false
	}
	sizes := []float64{x.System.Main[least]}
	if x.best.Main.Memory > sizes[0] {
		sizes = append(sizes, x.best.Main.Memory)
	}
	for _, memory := range sizes {
		m := Main{Away: all / x.Layers, Ratio: float64(all) / float64(x.Layers*x.Experts), Memory: memory}
		to, err := layered(x.System, x.r, m, x.d, x.set, false, func(l int) int { return away[l] })
		if err == nil && len(to.Limits) == 0 && to.Expected.Cost() < x.best.Expected.Cost()*(1-worthwhile) {
			x.best, better = to, true
		}
	}
	return better
}
