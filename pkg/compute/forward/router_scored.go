package forward

import (
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// scoredTopK scores every expert by itself and takes the best k of the best
// groups. A correction is added for choosing only: weights are plain scores.
//
// Source: DeepSeek-V2 (arXiv:2405.04434), section 2.2.2; DeepSeek-V3
// (arXiv:2412.19437), section 2.1.2; transformers,
// models/deepseek_v3/modeling_deepseek_v3.py.
type scoredTopK struct {
	score      func(logits []float32) // of one row, in place
	correction []float32              // (E), or nil
	groups     expertGroups
	normalise  bool
	scale      float32 // 0 is 1
}

func loadScored(m *model.Model, l int) (_ *scoredTopK, err error) {
	spec := &m.Spec.Layer[l].Router
	s := &scoredTopK{score: cpu.Softmax, normalise: spec.Normalise, scale: spec.Scale}
	s.groups = expertGroups{count: spec.Groups, top: spec.TopGroups, pairs: spec.GroupPairs}
	if spec.Kind == model.SigmoidTopK {
		s.score = sigmoids
	}
	if spec.Correction {
		s.correction, err = loadFloats(m, model.Ref{Role: model.RouterCorrection, Layer: l})
	}
	return s, err
}

func (s *scoredTopK) choose(out *Routes, logits []float32, experts, from, to int) {
	choice, groups := make([]float32, experts), s.groups.scratch()
	for i := from; i < to; i++ {
		scores := logits[i*experts : (i+1)*experts]
		s.score(scores)
		copy(choice, scores)
		if s.correction != nil {
			cpu.Add(choice, s.correction)
		}
		s.groups.keepBest(choice, groups)
		at := i * out.K
		ids, weights := out.Expert[at:at+out.K], out.Weight[at:at+out.K]
		cpu.TopK(ids, weights, choice)
		for slot, id := range ids {
			weights[slot] = scores[id]
		}
		finish(weights, s.normalise, s.scale)
	}
}

func sigmoids(x []float32) {
	for i, v := range x {
		x[i] = cpu.Sigmoid(v)
	}
}

// expertGroups says how experts are grouped, see model.RouterSpec.
type expertGroups struct {
	count, top int
	pairs      bool
}

type groupScratch struct {
	scores, best []float32
	ids          []int32
}

func (g *expertGroups) scratch() groupScratch {
	return groupScratch{make([]float32, g.count), make([]float32, g.top), make([]int32, g.top)}
}

// keepBest leaves the experts outside of the best groups without a chance. Of
// equal groups the lower one is better.
func (g *expertGroups) keepBest(choice []float32, s groupScratch) {
	if g.count <= 1 {
		return
	}
	size := len(choice) / g.count
	for i := range s.scores {
		s.scores[i] = g.scoreOf(choice[i*size : (i+1)*size])
	}
	cpu.TopK(s.ids, s.best, s.scores)
	for i := range s.scores {
		s.scores[i] = 0
	}
	for _, id := range s.ids {
		s.scores[id] = 1
	}
	for i, kept := range s.scores {
		if kept == 0 {
			fill(choice[i*size:(i+1)*size], float32(math.Inf(-1)))
		}
	}
}

// scoreOf returns a group's: its best expert's, or the sum of its best two.
func (g *expertGroups) scoreOf(group []float32) float32 {
	best, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for _, v := range group {
		if v > best {
			best, second = v, best
		} else if v > second {
			second = v
		}
	}
	if g.pairs {
		return best + second
	}
	return best
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
