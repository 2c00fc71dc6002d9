package bo

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// apart is how far the foretold rows of two trials are from each other.
func apart(a, b [][]float64) float64 {
	sum := 0.0
	for l := range a {
		for e := range a[l] {
			d := a[l][e] - b[l][e]
			sum += d * d
		}
	}
	return math.Sqrt(sum)
}

// key is a pair without its value.
type key struct {
	layer, expert int
	bayes.Features
}

// changes are the logarithms by which pairs change a table's values.
func changes(t *bayes.Table, pairs []bayes.Pair) map[key]float64 {
	out := map[key]float64{}
	for i := range pairs {
		if p := &pairs[i]; p.Count > 0 {
			out[key{p.Layer, p.Expert, p.Features}] = math.Log1p(float64(p.Count)) - math.Log1p(float64(t.Value(p)))
		}
	}
	return out
}

// between is how far two sets of changes are from each other. Squares are summed in whole
// millionths, so that the order of a map does not matter.
func between(a, b map[key]float64) float64 {
	const unit = 1e6
	sum := int64(0)
	for k, v := range a {
		d := v - b[k]
		sum += int64(math.Round(unit * d * d))
	}
	for k, v := range b {
		if _, both := a[k]; !both {
			sum += int64(math.Round(unit * v * v))
		}
	}
	return math.Sqrt(float64(sum) / unit)
}

// Errors are how far the surrogate's costs are from those of the last third of trials, by what it
// learnt of the others: with the kernel on foretold rows, and on pairs. They are root mean squares
// by the mean cost.
func Errors(t *bayes.Table, trials []Trial) (rows, pairs float64) {
	known := len(trials) - len(trials)/3
	if known < 2 || known == len(trials) {
		return 0, 0
	}
	byRows, byPairs := make([][]float64, len(trials)), make([][]float64, len(trials))
	of := make([]map[key]float64, len(trials))
	for i := range trials {
		of[i] = changes(t, trials[i].Pairs)
		for j := range known {
			byRows[i] = append(byRows[i], apart(trials[i].Loads, trials[j].Loads))
		}
	}
	for i := range trials {
		for j := range known {
			byPairs[i] = append(byPairs[i], between(of[i], of[j]))
		}
	}
	return held(byRows, trials, known), held(byPairs, trials, known)
}

func held(distances [][]float64, trials []Trial, known int) float64 {
	s := fit(distances[:known], costs(trials[:known]))
	sum, mean := 0.0, 0.0
	for i := known; i < len(trials); i++ {
		d := s.at(distances[i]) - trials[i].Cost
		sum, mean = sum+d*d, mean+trials[i].Cost
	}
	n := float64(len(trials) - known)
	return math.Sqrt(sum/n) / (mean / n)
}

func costs(trials []Trial) (out []float64) {
	for i := range trials {
		out = append(out, trials[i].Cost)
	}
	return out
}
