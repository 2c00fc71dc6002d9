package predict

import (
	"fmt"
	"maps"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

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
