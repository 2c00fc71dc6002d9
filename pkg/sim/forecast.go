package sim

import (
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// forecast predicts loads as wrongly as a predictor of a given accuracy. A row
// whose expert is not foreseen is foreseen for one of the same few others, as
// gates that resemble each other have it; so errors of many rows do not cancel.
type forecast struct {
	accuracy float64
	wrong    [][]float64 // of each layer and expert: where its rows are seen instead
	experts  int
	state    uint64
	out      []float64
}

func newForecast(s Settings) forecast {
	f := forecast{accuracy: s.accuracy(), experts: s.Model.Experts, state: splitmix.Mix(s.Seed), out: make([]float64, s.Model.Experts)}
	if f.accuracy < 1 && f.experts > 1 {
		f.wrong = make([][]float64, s.Model.Layers)
		for l := range f.wrong {
			f.wrong[l] = f.confusion()
		}
	}
	return f
}

// confusion draws, for each expert, the shares of the others in its unforeseen
// rows: exponential numbers to the third power, so that few have most.
func (f *forecast) confusion() []float64 {
	m := make([]float64, f.experts*f.experts)
	for e := range f.experts {
		row, total := m[e*f.experts:(e+1)*f.experts], 0.0
		for o := range row {
			if o != e {
				row[o] = math.Pow(-math.Log(1-f.uniform()), 3)
				total += row[o]
			}
		}
		for o := range row {
			row[o] /= total
		}
	}
	return m
}

func (f *forecast) uniform() float64 { return float64(splitmix.Next(&f.state)>>11) / (1 << 53) }

// predict are the loads as they are foreseen. It is the forecast's own slice until
// the next call.
func (f *forecast) predict(l int, loads []uint32) []float64 {
	clear(f.out)
	for e, n := range loads {
		seen := f.foreseen(float64(n))
		f.out[e] += seen
		if f.wrong == nil || n == 0 {
			continue
		}
		for o, share := range f.wrong[l][e*f.experts : (e+1)*f.experts] {
			f.out[o] += (float64(n) - seen) * share
		}
	}
	return f.out
}

// foreseen is a binomial number of n rows, by its normal approximation.
func (f *forecast) foreseen(n float64) float64 {
	if f.wrong == nil || n == 0 {
		return n
	}
	normal := -6.0
	for range 12 {
		normal += f.uniform()
	}
	seen := n*f.accuracy + normal*math.Sqrt(n*f.accuracy*(1-f.accuracy))
	return min(n, max(0, math.Round(seen)))
}

// overlap counts rows that were foreseen for their expert.
type overlap struct{ right, all float64 }

func (o *overlap) add(predicted []float64, actual []uint32) {
	for e, n := range actual {
		o.right += min(predicted[e], float64(n))
		o.all += float64(n)
	}
}

func (o *overlap) share() float64 {
	if o.all == 0 {
		return 0
	}
	return o.right / o.all
}

func floats(ns []uint32) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = float64(n)
	}
	return out
}
