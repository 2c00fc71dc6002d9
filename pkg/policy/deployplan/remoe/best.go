package remoe

import "github.com/switchyard/switchyard/pkg/policy/cost/serverless"

// mostMemories is how many sizes of the main model Best tries for a number of remote experts.
const mostMemories = 6

// Best is the cheapest plan that breaks no limit, of those that send as many experts of each layer
// away, for a request whose routing is known: what Remoe's steps could do at best without the
// worst case and without mispredictions. Experts leave by their rows, sizes are as the settings say,
// and replicas are Remoe's. It is nil where every one breaks a limit.
func Best(s *serverless.System, r Request, d *serverless.Demand, set Settings) (best *Decision) {
	coarse := max(1, s.Experts/8)
	at := 0
	try := func(away int) {
		if away < 0 || away > s.Experts {
			return
		}
		for _, memory := range memories(s, d, away) {
			m := Main{Away: away, Ratio: float64(away) / float64(s.Experts), Memory: memory}
			to, err := planned(s, r, m, d, set, false)
			if err == nil && len(to.Limits) == 0 && (best == nil || to.Expected.Cost() < best.Expected.Cost()) {
				best, at = to, away
			}
		}
	}
	for away := 0; away <= s.Experts; away += coarse {
		try(away)
	}
	for step := coarse / 2; step > 0; step /= 2 {
		middle := at
		try(middle - step)
		try(middle + step)
	}
	return best
}

// memories are sizes of the main model's host that hold the local experts: from the least up to
// the first from which on no expert is quicker.
func memories(s *serverless.System, d *serverless.Demand, away int) (all []float64) {
	need := s.MainMemory(uniform(s, away, 0, 1).Layers, d.Prompt+d.Output)
	for _, size := range s.Main {
		if size < need {
			continue
		}
		if all = append(all, size); len(all) > 1 && s.Compute(size, 1) >= s.Compute(all[len(all)-2], 1) {
			all = all[:len(all)-1]
			break
		}
	}
	if len(all) <= mostMemories {
		return all
	}
	some := make([]float64, 0, mostMemories)
	for i := range mostMemories {
		some = append(some, all[i*(len(all)-1)/(mostMemories-1)])
	}
	return some
}
