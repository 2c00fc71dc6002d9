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

// Tuned reports whether the copy that takes the inputs of layer is fine-tuned.
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

// Network is a network of two layers for one target: w2 · relu(w1·x + b1) + b2.
// Alone it is ProMoE's predictor, beside a gate an adapter.
type Network struct {
	Width  int       // H, of the layer between
	W1, B1 []float32 // (H, inputs), (H)
	W2, B2 []float32 // (E, H), (E)
}

// Learned predicts with networks that were trained from scratch, as ProMoE does.
type Learned struct {
	base
	layers []*network // by the layer whose inputs they take
}

type network struct {
	w1, w2 *cpu.Matrix
	b1, b2 []float32
}

// NewLearned takes a network for each target layer.
func NewLearned(g Gates, distance int, networks map[int]Network) (*Learned, error) {
	if err := g.checkDistance(distance); err != nil {
		return nil, err
	}
	p := &Learned{base: newBase(MethodProMoE, g, distance), layers: make([]*network, len(g.Layers))}
	if err := p.checkTargets(slices.Collect(maps.Keys(networks))); err != nil {
		return nil, err
	}
	for _, l := range g.Sources(distance) {
		n, ok := networks[l+distance]
		if !ok {
			return nil, fmt.Errorf("there is no network for layer %d", l+distance)
		}
		if err := n.check(g.Hidden, g.Experts); err != nil {
			return nil, fmt.Errorf("the network for layer %d: %w", l+distance, err)
		}
		p.layers[l] = n.pack(g.Hidden, g.Experts)
	}
	return p, nil
}

func (n Network) check(inputs, experts int) error {
	if n.Width < 1 || len(n.W1) != n.Width*inputs || len(n.B1) != n.Width || len(n.W2) != experts*n.Width || len(n.B2) != experts {
		return fmt.Errorf("width %d with %d, %d, %d and %d weights does not fit %d inputs and %d experts",
			n.Width, len(n.W1), len(n.B1), len(n.W2), len(n.B2), inputs, experts)
	}
	return nil
}

func (n Network) pack(inputs, experts int) *network {
	return &network{w1: cpu.PackF32(n.W1, n.Width, inputs), b1: n.B1, w2: cpu.PackF32(n.W2, experts, n.Width), b2: n.B2}
}

// Scores are the network's logits.
func (p *Learned) Scores(layer int, x []float32, rows int, scores []float32) bool {
	if _, ok := p.Target(layer); !ok {
		return false
	}
	p.layers[layer].run(scores, x, rows)
	return true
}

// run is out (R, E) of x (R, inputs).
func (n *network) run(out, x []float32, rows int) {
	inner := make([]float32, rows*n.w1.N)
	n.hidden(inner, x, rows)
	cpu.MatMul(out, n.w2.N, inner, n.w2.K, rows, n.w2, 0, n.w2.Panels())
	for r := range rows {
		cpu.Add(out[r*n.w2.N:(r+1)*n.w2.N], n.b2)
	}
}

func (n *network) bytes() int64 {
	return n.w1.Bytes() + n.w2.Bytes() + 4*int64(len(n.b1)+len(n.b2))
}

// hidden is inner (R, H) = relu(w1·x + b1) of x (R, inputs).
func (n *network) hidden(inner, x []float32, rows int) {
	cpu.MatMul(inner, n.w1.N, x, n.w1.K, rows, n.w1, 0, n.w1.Panels())
	for r := range rows {
		row := inner[r*n.w1.N : (r+1)*n.w1.N]
		cpu.Add(row, n.b1)
		for i, v := range row {
			row[i] = max(v, 0)
		}
	}
}

// Predict counts the network's choices.
func (p *Learned) Predict(layer int, x []float32, rows int, load []float64) bool {
	return p.count(p, layer, x, rows, load)
}

// Bytes is the memory of all networks of this distance.
func (p *Learned) Bytes() (n int64) {
	for _, l := range p.layers {
		if l != nil {
			n += l.bytes()
		}
	}
	return n
}
