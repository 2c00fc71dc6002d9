package scaler

import (
	"sync"

	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// remembers is by which factor rows of a layer are forgotten when as many have come again.
const remembers = 0.5

// activation is the share of each expert in the last rows of its layer: the historical mean, by
// which prompts are foretold that nothing else is known of.
type activation struct {
	experts int
	at      map[uint32]int // of layers

	mu    sync.Mutex
	rows  []float64 // (layers, experts)
	sums  []float64 // of layers
	fresh []float64 // rows since the last were forgotten
}

func newActivation(layers []int, experts int) *activation {
	a := &activation{experts: experts, at: map[uint32]int{}, rows: make([]float64, len(layers)*experts), sums: make([]float64, len(layers)), fresh: make([]float64, len(layers))}
	for i, l := range layers {
		a.at[uint32(l)] = i
	}
	return a
}

// manyRows are those of a layer that are remembered in full.
const manyRows = 4096

// add takes in a gate's sample, which was checked.
func (a *activation) add(s *pb.LoadSample) {
	i, ok := a.at[s.Layer]
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.rows[i*a.experts : (i+1)*a.experts]
	for _, step := range s.Steps {
		for k, e := range step.Expert {
			n := float64(step.Count[k])
			of[e] += n
			a.sums[i], a.fresh[i] = a.sums[i]+n, a.fresh[i]+n
		}
	}
	if a.fresh[i] < manyRows {
		return
	}
	for e := range of {
		of[e] *= remembers
	}
	a.sums[i], a.fresh[i] = a.sums[i]*remembers, 0
}

// any says whether rows have come in each layer.
func (a *activation) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sum := range a.sums {
		if sum == 0 {
			return false
		}
	}
	return true
}

// mean are the shares; even ones in a layer without rows.
func (a *activation) mean() []float32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	mean := make([]float32, len(a.rows))
	for i := range mean {
		mean[i] = 1 / float32(a.experts)
		if sum := a.sums[i/a.experts]; sum > 0 {
			mean[i] = float32(a.rows[i] / sum)
		}
	}
	return mean
}

// divergence is how far shares that were foretold are from these, in bits.
func (a *activation) divergence(foretold []float32) float64 {
	return sps.Divergence(foretold, a.mean(), a.experts)
}
