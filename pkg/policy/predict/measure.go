package predict

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Hits counts, of the experts that gates chose for rows, chosen (R, k), those that
// are among the k highest of the row's scores (R, E): accuracy is their share.
func Hits(scores []float32, chosen []int32, experts, k int) (hits int) {
	ids, vals := make([]int32, k), make([]float32, k)
	for r := range len(chosen) / k {
		cpu.TopK(ids, vals, scores[r*experts:(r+1)*experts])
		for _, e := range chosen[r*k : (r+1)*k] {
			if slices.Contains(ids, e) {
				hits++
			}
		}
	}
	return hits
}

// LoadAccuracy is the share of actual's rows that were predicted for the expert
// that gets them; 1 if there are none. Both sum to the same.
func LoadAccuracy(predicted, actual []float64) float64 {
	right, all := 0.0, 0.0
	for e, a := range actual {
		right += min(predicted[e], a)
		all += a
	}
	if all == 0 {
		return 1
	}
	return right / all
}

// Pearson is the correlation coefficient of two series; 0 if one does not vary.
func Pearson(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
	}
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-sx/n, y[i]-sy/n
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}
