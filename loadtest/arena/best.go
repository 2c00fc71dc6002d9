package arena

import "math"

// best is the other policy that has the least of a figure in the mean of seeds. The oracle is
// none: it computes rows by experts that their gates did not choose.
func (r *Operating) best(at setting, f served) string { return r.least(at, f, math.Inf(1)) }

// The bound of memory that claims have: up to this part of the capacity, so many times that of
// static; above it, that of eplb-full.
const (
	calm     = 0.3
	mostCalm = 1.1
	rounding = 1e-9
)

// bestWithin is the best of those that keep the bound of memory.
func (r *Operating) bestWithin(at setting, f served) string {
	most := r.sum(at, "eplb-full", memory)
	if at.Point <= calm {
		most = mostCalm * r.sum(at, "static", memory)
	}
	if most == 0 { // what the bound is told by did not run
		return ""
	}
	return r.least(at, f, most*(1+rounding))
}

// least is the other policy that has the least of a figure, of those with no more memory.
func (r *Operating) least(at setting, f served, most float64) (name string) {
	least := 0.0
	for _, p := range r.policies() {
		sum := r.sum(at, p, f)
		if p != ours && p != "oracle" && r.sum(at, p, memory) <= most && (name == "" || sum < least) {
			name, least = p, sum
		}
	}
	return name
}

func (r *Operating) sum(at setting, policy string, f served) (sum float64) {
	for _, l := range r.at(at, policy) {
		sum += f.of(l)
	}
	return sum
}
