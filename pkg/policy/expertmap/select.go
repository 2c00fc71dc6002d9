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
