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
	copies   []*cpu.Matrix // (E, D), by the layer whose inputs they take
	adapters []*network    // by the same; nil for copies without one
	sources  []*Source     // by the same: what adapters take
	tuned    []bool        // by the same
}

// Tuned is the fine-tuned copy of a gate. An adapter, where there is one, adds
// its output to the copy's: some layers do too much for a matrix to foresee. It
// takes D+E inputs; see Source.
type Tuned struct {
	Gate    []float32 // (E, D)
	Adapter *Network
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
// some are fine-tuned: tuned has them by target layer.
func LayerAware(g Gates, distance int, tuned map[int]Tuned) (*Gate, error) {
	if err := g.checkDistance(distance); err != nil {
		return nil, err
	}
	n := len(g.Layers)
	p := &Gate{base: newBase(MethodMoEless, g, distance), copies: make([]*cpu.Matrix, n), tuned: make([]bool, n)}
	p.adapters, p.sources = make([]*network, n), make([]*Source, n)
	if err := p.checkTargets(slices.Collect(maps.Keys(tuned))); err != nil {
		return nil, err
	}
	for _, l := range g.Sources(distance) {
		copied, ok := tuned[l+distance]
		if !ok {
			copied.Gate = g.Layers[l+distance]
		}
		if err := p.set(l, copied); err != nil {
			return nil, fmt.Errorf("the tuned gate of layer %d: %w", l+distance, err)
		}
		p.tuned[l] = ok
	}
	return p, nil
}

// set packs the copy that takes the inputs of layer.
func (p *Gate) set(layer int, t Tuned) error {
	g := p.gates
	if len(t.Gate) != g.Experts*g.Hidden {
		return fmt.Errorf("it has %d weights; (%d, %d) are expected", len(t.Gate), g.Experts, g.Hidden)
	}
	p.copies[layer] = cpu.PackF32(t.Gate, g.Experts, g.Hidden)
	if t.Adapter == nil {
		return nil
	}
	if err := t.Adapter.check(g.Hidden+g.Experts, g.Experts); err != nil {
		return fmt.Errorf("its adapter: %w", err)
	}
	p.adapters[layer] = t.Adapter.pack(g.Hidden+g.Experts, g.Experts)
	p.sources[layer] = NewSource(g, layer)
	return nil
}

// Tuned says whether the copy that takes the inputs of layer is fine-tuned.
func (p *Gate) Tuned(layer int) bool { return layer >= 0 && layer < len(p.tuned) && p.tuned[layer] }

// Scores are the copy's logits, with what its adapter adds.
func (p *Gate) Scores(layer int, x []float32, rows int, scores []float32) bool {
	if _, ok := p.Target(layer); !ok {
		return false
	}
	w := p.copies[layer]
	cpu.MatMul(scores, w.N, x, w.K, rows, w, 0, w.Panels())
	if a := p.adapters[layer]; a != nil {
		out := make([]float32, rows*w.N)
		a.run(out, p.sources[layer].Wide(x, rows), rows)
		cpu.Add(scores, out)
	}
	return true
}

// Predict counts the copy's choices.
func (p *Gate) Predict(layer int, x []float32, rows int, load []float64) bool {
	return p.count(p, layer, x, rows, load)
}

// Bytes is the memory of all copies of this distance.
func (p *Gate) Bytes() (n int64) {
	for l, w := range p.copies {
		if w != nil {
			n += w.Bytes()
		}
		if a := p.adapters[l]; a != nil {
			n += a.bytes() + p.sources[l].w.Bytes()
		}
	}
	return n
}
