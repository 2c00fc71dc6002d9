package remoe

import "math"

// Bound is how many rows may come in the worst case: theorem 1 and its corollary.
type Bound struct {
	// Printed has the paper's form, √(3n)/2 + m·n/K for n tokens, which leaves out that a token
	// has several rows.
	Printed bool
	// Scale multiplies the bound; 0 is 1. One that was measured makes it hold as often as wanted
	// where rows are neither even nor independent.
	Scale float64
}

// Rows are those that m of a layer's experts get of so many tokens, with 95 %: by Hoeffding's
// inequality √(3n/2) more than their share of n rows, and never more than each token can have.
func (b Bound) Rows(tokens, topK, experts, m int) float64 {
	if m <= 0 {
		return 0
	}
	scale := b.Scale
	if scale == 0 {
		scale = 1
	}
	share := float64(m) / float64(experts)
	if b.Printed {
		n := float64(tokens)
		return scale * (math.Sqrt(3*n)/2 + share*n)
	}
	n := float64(tokens * topK)
	return min(scale*(math.Sqrt(1.5*n)+share*n), float64(tokens*min(topK, m)))
}

// most is the largest sum of f over so many experts that have some rows together, each one of at
// least one and at most each, where f grows ever faster from one row on: some have all they can,
// and the others one.
func most(experts int, rows, each float64, f func(rows float64) float64) (sum float64) {
	left, last, of := rows, math.NaN(), 0.0
	for i := range experts {
		if left <= 0 {
			break
		}
		n := min(each, max(min(1, left), left-float64(experts-1-i)))
		if n != last {
			last, of = n, f(n)
		}
		sum += of
		left -= n
	}
	return sum
}

// even is the largest mean of f over tokens that have r of f's rows, in the mean no more than
// mean: the highest chord between two of its points over what is allowed.
func even(f []float64, mean float64) (most float64) {
	for r, v := range f {
		if float64(r) <= mean {
			most = max(most, v)
			continue
		}
		for low := 0; float64(low) <= mean; low++ {
			part := (mean - float64(low)) / float64(r-low)
			most = max(most, f[low]+part*(v-f[low]))
		}
	}
	return most
}
