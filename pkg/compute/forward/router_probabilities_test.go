package forward

import (
	"math"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// A row's probabilities sum to 1. Where nothing is added for choosing alone, the gate's choice
// are the largest of them, and where its weights are shares of all experts, their bits are the
// same.
func TestProbabilities(t *testing.T) {
	for _, tc := range []struct {
		name           string
		largest, equal bool
	}{
		{"mixtral", true, false}, {"olmoe", true, true}, {"qwen2_moe", true, true}, {"gpt_oss", true, false},
		{"llama4", true, false}, {"phimoe", false, false}, {"deepseek_v3", false, false}, {"deepseek_v2-grouped", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := modeltest.Golden(t, tc.name)
			r, layer, n := loadRouter(t, m), 0, m.Spec.Experts
			for !m.Spec.Layer[layer].MoE {
				layer++
			}
			const rows = 5
			x, probabilities := noise(7, rows*m.Spec.Hidden), make([]float32, rows*n)
			var routes Routes
			if err := r.Probabilities(layer, x, probabilities); err != nil {
				t.Fatal(err)
			}
			if err := r.Route(layer, x, &routes); err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				at := i * routes.K
				checkProbabilities(t, probabilities[i*n:(i+1)*n], routes.Expert[at:at+routes.K], routes.Weight[at:at+routes.K], tc.largest, tc.equal)
			}
		})
	}
}

func checkProbabilities(t *testing.T, row []float32, chosen []int32, weights []float32, largest, equal bool) {
	t.Helper()
	sum := 0.0
	for _, p := range row {
		sum += float64(p)
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("probabilities sum to %v", sum)
	}
	ids, best := make([]int32, len(chosen)), make([]float32, len(chosen))
	cpu.TopK(ids, best, row)
	if largest && !slices.Equal(ids, chosen) {
		t.Errorf("the gate chooses %v, most probable are %v", chosen, ids)
	}
	if equal && !same(best, weights) {
		t.Errorf("the gate's weights are %v, the probabilities %v", weights, best)
	}
}

// What has no gate, and what does not fit, is refused.
func TestProbabilitiesRefuse(t *testing.T) {
	m := modeltest.Golden(t, "mixtral")
	r, x := loadRouter(t, m), make([]float32, m.Spec.Hidden)
	for _, layer := range []int{-1, m.Spec.Layers} {
		if r.Probabilities(layer, x, make([]float32, m.Spec.Experts)) == nil {
			t.Errorf("layer %d has a gate", layer)
		}
	}
	if r.Probabilities(0, x, nil) == nil {
		t.Error("probabilities without places")
	}
}
