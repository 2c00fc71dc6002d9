package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
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

// Gates choose experts: a Router, or a device. Errors of a device are *DeviceError.
type Gates interface {
	// Route chooses experts for x (R, D).
	Route(layer int, x []float32, out *Routes) error
}

// Router is the gates of all MoE layers on the CPU.
type Router struct {
	spec   model.Spec
	p      *pool.Pool
	layers []*gate // nil for dense layers
}

var _ Gates = (*Router)(nil)

type gate struct {
	matrix *cpu.Matrix // (E, D)
	bias   []float32   // (E), or nil
	choose chooser
	// alone says that each expert's score is its own; else they are shares of 1.
	alone bool
}

// chooser makes the routes of the rows [from, to) from their logits (R, E), which
// it may overwrite. Of equal scores the lower expert id is better.
type chooser interface {
	choose(out *Routes, logits []float32, experts, from, to int)
}

// LoadRouter reads the gates' weights.
func LoadRouter(m *model.Model, p *pool.Pool) (_ *Router, err error) {
	r := &Router{spec: m.Spec, p: p, layers: make([]*gate, m.Spec.Layers)}
	for l := range r.layers {
		if !m.Spec.Layer[l].MoE {
			continue
		}
		if r.layers[l], err = loadGate(m, l); err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return r, nil
}

func loadGate(m *model.Model, l int) (g *gate, err error) {
	spec := &m.Spec.Layer[l].Router
	g = &gate{alone: spec.Kind == model.SigmoidTopK || spec.Kind == model.TopKSigmoid}
	if g.matrix, err = loadMatrix(m, model.Ref{Role: model.Router, Layer: l}); err != nil {
		return nil, err
	}
	if spec.Bias {
		if g.bias, err = loadFloats(m, model.Ref{Role: model.RouterBias, Layer: l}); err != nil {
			return nil, err
		}
	}
	g.choose, err = loadChooser(m, l)
	return g, err
}

func loadChooser(m *model.Model, l int) (chooser, error) {
	s := &m.Spec.Layer[l].Router
	switch {
	case s.Kind == model.SoftmaxTopK && s.Groups <= 1 && !s.Correction:
		return &softmaxTopK{normalise: s.Normalise, scale: s.Scale}, nil
	case s.Kind == model.SoftmaxTopK, s.Kind == model.SigmoidTopK:
		return loadScored(m, l)
	case s.Kind == model.TopKSoftmax:
		return topKSoftmax{}, nil
	case s.Kind == model.TopKSigmoid:
		return topKSigmoid{}, nil
	case s.Kind == model.SparseMixer:
		return &sparseMixer{s.Threshold}, nil
	}
	return nil, fmt.Errorf("routing by %+v is not computed", *s)
}

// Route is Gates'.
func (r *Router) Route(layer int, x []float32, out *Routes) error {
	return r.routeAfter(layer, x, out, func(int, int) {})
}

// routeAfter is Route of x whose rows [from, to) first makes before they are looked at.
func (r *Router) routeAfter(layer int, x []float32, out *Routes, first func(from, to int)) error {
	if layer < 0 || layer >= len(r.layers) || r.layers[layer] == nil {
		return fmt.Errorf("layer %d has no gate in this model", layer)
	}
	g, rows := r.layers[layer], len(x)/r.spec.Hidden
	n := g.matrix.N
	out.resize(rows, r.spec.TopK, n)
	r.logits(g, x, out.scratch, first, func(from, to int) { g.choose.choose(out, out.scratch, n, from, to) })
	return nil
}

// logits fills out (R, E) for x (R, D), of which first makes rows [from, to), and calls then for those that are there.
// Of a small gate each thread takes some rows all the way.
func (r *Router) logits(g *gate, x, out []float32, first, then func(from, to int)) {
	d, n := r.spec.Hidden, g.matrix.N
	rows, p := len(x)/d, workers{Pool: r.p}
	small, nanos := g.matrix.Bytes() <= smallGate, rowNanos
	if small {
		nanos += matMulNanos(1, g.matrix)
	} else {
		eachRow(p, rows, d/8, first)
		matMul(p, out, x, rows, g.matrix)
	}
	eachRow(p, rows, nanos, func(from, to int) {
		if small {
			first(from, to)
			cpu.MatMul(out[from*n:], n, x[from*d:], d, to-from, g.matrix, 0, g.matrix.Panels())
		}
		addBias(out, g.bias, from, to)
		then(from, to)
	})
}

// smallGate is how many bytes of a gate's weights each thread may read.
const smallGate = 64 << 10

// Probabilities fills out (R, E) with what a layer's gate makes of all experts for x (R, D)
// before it chooses any: the softmax of the logits that Route has, or where each expert is
// scored by itself, the scores divided by their sum. What is added for choosing alone does
// not count.
func (r *Router) Probabilities(layer int, x, out []float32) error {
	if layer < 0 || layer >= len(r.layers) || r.layers[layer] == nil {
		return fmt.Errorf("layer %d has no gate in this model", layer)
	}
	g := r.layers[layer]
	n := g.matrix.N
	if want := len(x) / r.spec.Hidden * n; len(out) != want {
		return fmt.Errorf("probabilities of %d values are asked for in %d places", want, len(out))
	}
	r.logits(g, x, out, func(int, int) {}, func(from, to int) {
		for i := from; i < to; i++ {
			if row := out[i*n : (i+1)*n]; g.alone {
				sigmoids(row)
				finish(row, true, 0)
			} else {
				cpu.Softmax(row)
			}
		}
	})
	return nil
}

// rowNanos is about what choosing a row's experts takes.
const rowNanos = 300

func (r *Routes) resize(rows, k, experts int) {
	r.K = k
	r.Expert = reuse.Slice(r.Expert, rows*k)
	r.Weight = reuse.Slice(r.Weight, rows*k)
	r.scratch = reuse.Slice(r.scratch, rows*experts)
}
