package bo

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// surrogate is a Gaussian process with a Matérn 5/2 kernel: what points cost, by how far they are
// from points whose cost is known.
type surrogate struct {
	mean, spread float64 // of the known costs
	length       float64
	weights      []float64 // of the known points
}

// matern is the kernel of smoothness 5/2.
func matern(distance, length float64) float64 {
	d := math.Sqrt(5) * distance / length
	return (1 + d + d*d/3) * math.Exp(-d)
}

// lengths and noises are the hyperparameters that are tried, the first by the median distance.
var (
	lengths = []float64{0.25, 0.5, 1, 2, 4, 8}
	noises  = []float64{1e-6, 1e-4, 1e-2, 1e-1}
)

// fit is the surrogate of known points, whose marginal likelihood is the largest. Distances are
// those of each to each.
func fit(distances [][]float64, costs []float64) *surrogate {
	s := &surrogate{}
	for _, c := range costs {
		s.mean += c / float64(len(costs))
	}
	for _, c := range costs {
		s.spread += (c - s.mean) * (c - s.mean) / float64(len(costs))
	}
	if s.spread = math.Sqrt(s.spread); !(s.spread > 0) {
		return s
	}
	y := make([]float64, len(costs))
	for i, c := range costs {
		y[i] = (c - s.mean) / s.spread
	}
	best, unit := math.Inf(-1), median(distances)
	for _, length := range lengths {
		for _, noise := range noises {
			if weights, likelihood, ok := solve(distances, y, length*unit, noise); ok && likelihood > best {
				best, s.length, s.weights = likelihood, length*unit, weights
			}
		}
	}
	return s
}

// median is that of distances above 0; 1 where there is none.
func median(distances [][]float64) float64 {
	var all []float64
	for i, row := range distances {
		for _, d := range row[:i] {
			if d > 0 {
				all = append(all, d)
			}
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// solve are the weights of known points, and the logarithm of the marginal likelihood but for what
// all hyperparameters share.
func solve(distances [][]float64, y []float64, length, noise float64) (weights []float64, likelihood float64, ok bool) {
	n := len(y)
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			k.SetSym(i, j, matern(distances[i][j], length))
		}
		k.SetSym(i, i, k.At(i, i)+noise)
	}
	var c mat.Cholesky
	if !c.Factorize(k) {
		return nil, 0, false
	}
	known, w := mat.NewVecDense(n, y), mat.NewVecDense(n, nil)
	if err := c.SolveVecTo(w, known); err != nil {
		return nil, 0, false
	}
	return w.RawVector().Data, -(mat.Dot(known, w) + c.LogDet()) / 2, true
}

// at is the posterior mean of a point, by its distances from the known ones.
func (s *surrogate) at(distances []float64) float64 {
	sum := 0.0
	for i, w := range s.weights {
		sum += w * matern(distances[i], s.length)
	}
	return s.mean + s.spread*sum
}

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
