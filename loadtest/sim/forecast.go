package sim

import (
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
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

func (f *forecast) uniform() float64 { return splitmix.Unit(splitmix.Next(&f.state)) }

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

// trust corrects predictions by what came of those before: where an expert always
// gets more rows than are foreseen, as many more are expected again.
type trust struct {
	foreseen, came [][]float64 // of each layer and expert, the newer the more
	out            []float64
}

func newTrust(s Settings) trust {
	t := trust{out: make([]float64, s.Model.Experts)}
	for range s.Model.Layers {
		t.foreseen = append(t.foreseen, make([]float64, s.Model.Experts))
		t.came = append(t.came, make([]float64, s.Model.Experts))
	}
	return t
}

// correct are predicted loads times what came of those before. It is the trust's
// own slice until the next call.
func (t *trust) correct(l int, predicted []float64) []float64 {
	t.out = elastic.Correct(t.out[:0], predicted, t.foreseen[l], t.came[l])
	return t.out
}

// learn compares a prediction with what came.
func (t *trust) learn(l int, predicted []float64, actual []uint32) {
	for e, n := range actual {
		t.foreseen[l][e] = forget*t.foreseen[l][e] + predicted[e]
		t.came[l][e] = forget*t.came[l][e] + float64(n)
	}
}

// forget is the part of what is known that counts an iteration later.
const forget = 0.99

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
