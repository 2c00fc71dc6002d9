package train

import (
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/loadtest/train/networks"
)

// batchLoads are the loads (E) that the rows' scores predict, and their real ones.
func batchLoads(scores []float32, test *networks.Examples, rows []int, inProportion bool) (predicted, actual []float64) {
	e, k := test.Experts, test.TopK
	predicted, actual = make([]float64, e), make([]float64, e)
	ids, vals := make([]int32, k), make([]float32, k)
	for _, r := range rows {
		for _, id := range test.Chosen[r*k : (r+1)*k] {
			actual[id]++
		}
		row := scores[r*e : (r+1)*e]
		if inProportion {
			for i, v := range row {
				predicted[i] += float64(v)
			}
			continue
		}
		cpu.TopK(ids, vals, row)
		for _, id := range ids {
			predicted[id]++
		}
	}
	return predicted, actual
}
