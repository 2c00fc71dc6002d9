package predictors

import (
	"math"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// Ahead are the gates that were trained for each distance, from 1: they say what a row will ask
// of a layer by what an earlier gate sees. nil is a distance that none were trained for.
type Ahead []*predict.Gate

// AheadFor returns a model's, of a file of weights or of this binary, for distances up to one.
func AheadFor(m *model.Model, weights string, most int) (all Ahead) {
	for d := 1; d <= most; d++ {
		p, err := For(m, weights, d)
		if err != nil || p.Method() == predict.MethodReused { // weights of other distances, or the layers' own gates, which are asked anyway
			p = nil
		}
		all = append(all, p)
	}
	return all
}

// Fill fills row (J) with what a row that a gate sees as x asks of a later layer; false where nothing is
// trained for that.
func (t Ahead) Fill(layer, ahead, target int, x, row []float32) bool {
	if ahead < 1 || ahead > len(t) || t[ahead-1] == nil {
		return false
	}
	p := t[ahead-1]
	if to, ok := p.Target(layer); !ok || to != target || !p.Scores(layer, x, 1, row) {
		return false
	}
	softmax(row)
	return true
}

func softmax(row []float32) {
	most := float32(math.Inf(-1))
	for _, v := range row {
		most = max(most, v)
	}
	sum := float32(0)
	for e, v := range row {
		row[e] = float32(math.Exp(float64(v - most)))
		sum += row[e]
	}
	for e := range row {
		row[e] /= sum
	}
}
