package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// NoExpert marks a slot that nobody computes: it adds nothing to its row.
const NoExpert = -1

// Routes are the chosen experts of R rows: (R, k) ids and weights. The column
// is the slot. The router fills every slot; whoever changes routes may leave some
// to NoExpert.
type Routes struct {
	K       int
	Expert  []int32
	Weight  []float32
	scratch []float32
}

// Rows is R.
func (r *Routes) Rows() int { return len(r.Expert) / r.K }

// Router is the gates of all MoE layers.
type Router struct {
	spec   model.Spec
	p      *pool.Pool
	layers []*cpu.Matrix // (E, D); nil for dense layers
}

// LoadRouter reads the gates' weights.
func LoadRouter(m *model.Model, p *pool.Pool) (*Router, error) {
	r := &Router{spec: m.Spec, p: p, layers: make([]*cpu.Matrix, m.Spec.Layers)}
	for l := range r.layers {
		if !m.Spec.Layer[l].MoE {
			continue
		}
		var err error
		if r.layers[l], err = loadMatrix(m, model.Ref{Role: model.Router, Layer: l}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Route chooses experts for x (R, D): softmax over all experts, the best k
// (ties to the lower id), renormalised if the model says so.
func (r *Router) Route(layer int, x []float32, out *Routes) error {
	if layer < 0 || layer >= len(r.layers) || r.layers[layer] == nil {
		return fmt.Errorf("layer %d has no gate in this model", layer)
	}
	w, rows := r.layers[layer], len(x)/r.spec.Hidden
	out.resize(rows, r.spec.TopK, w.N)
	matMul(workers{Pool: r.p}, out.scratch, x, rows, w)
	eachRow(workers{Pool: r.p}, rows, rowNanos, func(from, to int) {
		for i := from; i < to; i++ {
			r.choose(out, i, w.N)
		}
	})
	return nil
}

// rowNanos is about what choosing a row's experts takes.
const rowNanos = 200

// choose makes the routes of row i of its logits.
func (r *Router) choose(out *Routes, i, experts int) {
	probs := out.scratch[i*experts : (i+1)*experts]
	cpu.Softmax(probs)
	at := i * out.K
	weights := out.Weight[at : at+out.K]
	cpu.TopK(out.Expert[at:at+out.K], weights, probs)
	if r.spec.NormTopK {
		normalise(weights)
	}
}

func normalise(w []float32) {
	sum := float32(0)
	for _, v := range w {
		sum += v
	}
	for i := range w {
		w[i] /= sum
	}
}

func (r *Routes) resize(rows, k, experts int) {
	r.K = k
	r.Expert = tensor.Resize(r.Expert, rows*k)
	r.Weight = tensor.Resize(r.Weight, rows*k)
	r.scratch = tensor.Resize(r.scratch, rows*experts)
}
