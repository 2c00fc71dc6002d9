package forward

import (
	"errors"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// head makes logits of the last layer's rows.
type head struct {
	norm   norm
	matrix *cpu.Matrix // (V, D)
	bias   []float32   // (V), or nil
}

func loadHead(m *model.Model) (h head, err error) {
	if m.Spec.Head.Dense {
		return h, errors.New("a head with a dense layer is not computed")
	}
	role := model.Head
	if m.Spec.TiedEmbeddings {
		role = model.Embed
	}
	if h.matrix, err = loadMatrix(m, model.Ref{Role: role}); err != nil { // first: the embedding has been fetched just now
		return h, err
	}
	if h.norm, err = loadNorm(m, m.Spec.FinalNorm, model.Ref{Role: model.FinalNorm}); err != nil {
		return h, err
	}
	if m.Spec.Head.Bias {
		h.bias, err = loadFloats(m, model.Ref{Role: model.HeadBias})
	}
	return h, err
}

// lmHead fills logits (len(rows), V).
func (s *Step) lmHead(rows []int) {
	h, d := &s.Backbone.head, s.Backbone.spec.Hidden
	for n, i := range rows {
		copy(s.norm[n*d:(n+1)*d], s.x[i*d:(i+1)*d])
	}
	h.norm.apply(s.workers(), s.norm, s.norm, len(rows))
	s.logits = tensor.Resize(s.logits, len(rows)*h.matrix.N)
	matMul(s.workers(), s.logits, s.norm[:len(rows)*d], len(rows), h.matrix)
	if h.bias != nil {
		addBias(s.logits, h.bias, 0, len(rows))
	}
}
