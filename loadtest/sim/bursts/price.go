package bursts

import "slices"

// Price is what a step takes, and accesses.
type Price struct {
	Seconds       float64
	Experts       float64 // seconds of them
	Before, After int     // accesses without and with the brownout
	Routed, Kept  int     // rows, and those that their own experts compute
}

// PriceOf is the price of a step with such routed rows of each phase, by layer and expert, so many rows of
// prompts among them, at the thresholds that a run begins with. Check must have found nothing wrong.
func PriceOf(s Settings, loads [2][]uint32, prompts int) Price {
	n := s.Shape.Layers * s.Shape.Experts
	for i := range loads {
		loads[i] = append(slices.Clone(loads[i]), make([]uint32, max(0, n-len(loads[i])))...)
	}
	p := splits{Settings: s}
	got := p.step(&loads, prompts, s.Thresholds, 1)
	return Price{Seconds: got.seconds, Experts: got.experts, Before: got.before, After: got.after, Routed: got.total, Kept: got.kept}
}
