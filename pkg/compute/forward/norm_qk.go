package forward

import (
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// qkNorm is an RMS norm of a row's queries and keys. A nil one does nothing.
type qkNorm struct {
	// q and k are weights of as many elements as are normalised together.
	q, k []float32
	eps  float32
	// rotated: it follows rotary embedding, rather than going before it.
	rotated bool
}

func loadQKNorm(m *model.Model, l int) (*qkNorm, error) {
	spec := &m.Spec.Layer[l]
	n := &qkNorm{eps: spec.Norm.Eps}
	switch spec.Mixer.QKNorm {
	case model.NoQKNorm:
		return nil, nil
	case model.QKNormL2:
		n.q, n.rotated = slices.Repeat([]float32{1}, spec.Mixer.HeadDim), true
		n.k = n.q
		return n, nil
	}
	var err error
	if n.q, err = loadFloats(m, model.Ref{Role: model.QNorm, Layer: l}); err != nil {
		return nil, err
	}
	n.k, err = loadFloats(m, model.Ref{Role: model.KNorm, Layer: l})
	return n, err
}

// before and after are called on either side of rotary embedding.
func (n *qkNorm) before(q, k []float32) {
	if n != nil && !n.rotated {
		n.apply(q, k)
	}
}

func (n *qkNorm) after(q, k []float32) {
	if n != nil && n.rotated {
		n.apply(q, k)
	}
}

func (n *qkNorm) apply(q, k []float32) {
	for unit := range slices.Chunk(q, len(n.q)) {
		cpu.RMSNorm(unit, unit, n.q, n.eps)
	}
	for unit := range slices.Chunk(k, len(n.k)) {
		cpu.RMSNorm(unit, unit, n.k, n.eps)
	}
}
