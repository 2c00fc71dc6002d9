package expertmap

import (
	"cmp"
	"math"
	"slices"
)

// Hint is an expert that will probably be needed.
type Hint struct {
	Expert      int
	Probability float32
}

// Threshold is δ: the share of a layer's probability that is worth fetching by a map of
// such a score.
func Threshold[F ~float32 | ~float64](score F) F {
	if math.IsNaN(float64(score)) {
		return 1
	}
	return max(0, min(1, 1-score))
}

// Select appends to into the fewest experts, most probable first and of equal ones the
// lower id first, whose probabilities reach Threshold(score), but at least topK and at
// most all of them: sums of float32 may miss 1.
func Select[F ~float32 | ~float64](row []F, score F, topK int, into []Hint) []Hint {
	delta, begin := float64(Threshold(score)), len(into)
	for e, p := range row {
		into = append(into, Hint{e, float32(p)})
	}
	chosen := into[begin:]
	slices.SortFunc(chosen, func(a, b Hint) int {
		return cmp.Or(cmp.Compare(row[b.Expert], row[a.Expert]), cmp.Compare(a.Expert, b.Expert))
	})
	sum, n := 0.0, 0
	for n < len(chosen) && (n < topK || sum < delta) {
		sum += float64(row[chosen[n].Expert])
		n++
	}
	return into[:begin+n]
}

// Several is the probability that any of so many rows, each with topK choices, uses an expert
// whose mean probability is p.
func Several(rows, topK int, p float32) float32 {
	if rows == 1 {
		return min(1, max(0, p))
	}
	return float32(1 - math.Pow(1-min(1, max(0, float64(topK)*float64(p))), float64(rows)))
}

// Least is how many experts of a map's row are worth fetching at least, for so many rows of which
// the map is the mean: topK, and of several rows those that are rather used than not.
func Least(row []float32, rows, topK int) int {
	if rows == 1 {
		return topK
	}
	n := 0
	for _, p := range row {
		if Several(rows, topK, p) >= 0.5 {
			n++
		}
	}
	return max(topK, n)
}
