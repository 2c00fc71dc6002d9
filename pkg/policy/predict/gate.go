package predict

import (
	"fmt"
	"maps"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Gate predicts with gates: the model's own, or fine-tuned copies of them.
type Gate struct {
	base
	copies []*cpu.Matrix // (E, D), by the layer whose inputs they take
	tuned  []bool        // by the same
}

// Reused predicts with the gates of the layers ahead as they are, as
// Mixtral-offloading does.
func Reused(g Gates, distance int) (*Gate, error) {
	p, err := LayerAware(g, distance, nil)
	if err != nil {
		return nil, err
	}
	p.method = MethodReused
	return p, nil
}

// LayerAware predicts as MoEless does: with copies of the gates ahead, of which
// some are fine-tuned: tuned has their weights (E, D) by target layer.
func LayerAware(g Gates, distance int, tuned map[int][]float32) (*Gate, error) {
	if err := g.checkDistance(distance); err != nil {
		return nil, err
	}
	p := &Gate{base: newBase(MethodMoEless, g, distance), copies: make([]*cpu.Matrix, len(g.Layers)), tuned: make([]bool, len(g.Layers))}
	if err := p.checkTargets(slices.Collect(maps.Keys(tuned))); err != nil {
		return nil, err
	}
	for _, l := range g.Sources(distance) {
		w := g.Layers[l+distance]
		if t, ok := tuned[l+distance]; ok {
			if len(t) != len(w) {
				return nil, fmt.Errorf("the tuned gate of layer %d has %d weights, the gate %d", l+distance, len(t), len(w))
			}
			w, p.tuned[l] = t, true
		}
		p.copies[l] = cpu.PackF32(w, g.Experts, g.Hidden)
	}
	return p, nil
}

// Tuned says whether the copy that takes the inputs of layer is fine-tuned.
func (p *Gate) Tuned(layer int) bool { return layer >= 0 && layer < len(p.tuned) && p.tuned[layer] }

// Scores are the copy's logits.
func (p *Gate) Scores(layer int, x []float32, rows int, scores []float32) bool {
	if _, ok := p.Target(layer); !ok {
		return false
	}
	w := p.copies[layer]
	cpu.MatMul(scores, w.N, x, w.K, rows, w, 0, w.Panels())
	return true
}

// Predict counts the copy's choices.
func (p *Gate) Predict(layer int, x []float32, rows int, load []float64) bool {
	return p.count(p, layer, x, rows, load)
}

// Bytes is the memory of all copies of this distance.
func (p *Gate) Bytes() (n int64) {
	for _, w := range p.copies {
		if w != nil {
			n += w.Bytes()
		}
	}
	return n
}
