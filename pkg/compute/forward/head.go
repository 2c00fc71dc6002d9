package forward

import (
	"cmp"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// head makes logits of the last layer's rows.
type head struct {
	norm   norm
	dense  *headDense  // or nil
	matrix *cpu.Matrix // (V, D)
	bias   []float32   // (V), or nil
}

func loadHead(m *model.Model) (h head, err error) {
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
	if m.Spec.Head.Dense {
		if h.dense, err = loadHeadDense(m); err != nil {
			return h, err
		}
	}
	if m.Spec.Head.Bias {
		h.bias, err = loadFloats(m, model.Ref{Role: model.HeadBias})
	}
	return h, err
}

// logitsAtOnce bounds the logits that are in memory: 64 MiB, which holds a batch
// of answer tokens of any usual vocabulary, so that each slice's read of the LM
// head's weights is shared by many rows.
const logitsAtOnce = 16 << 20

// Logits normalises and multiplies as many rows as logitsAtOnce allows.
func (s *lane) Logits(rows []int) ([]float32, error) {
	h, d := &s.head, s.spec.Hidden
	rows = rows[:min(len(rows), max(1, cmp.Or(s.atOnce, logitsAtOnce)/h.matrix.N))]
	for n, i := range rows {
		copy(s.norm[n*d:(n+1)*d], s.x[i*d:(i+1)*d])
	}
	h.norm.apply(s.workers(), s.norm, s.norm, len(rows))
	if h.dense != nil {
		h.dense.apply(s, len(rows))
	}
	s.logits = reuse.Slice(s.logits, len(rows)*h.matrix.N)
	matMul(s.workers(), s.logits, s.norm[:len(rows)*d], len(rows), h.matrix)
	if h.bias != nil {
		addBias(s.logits, h.bias, 0, len(rows))
	}
	return s.logits, nil
}

// headDense is norm(activate(W·x + bias)).
type headDense struct {
	matrix   *cpu.Matrix // (D, D)
	bias     []float32   // (D)
	activate activation
	norm     norm
}

func loadHeadDense(m *model.Model) (d *headDense, err error) {
	spec := &m.Spec.Head
	d = &headDense{}
	if d.activate, err = activationOf(&model.FFNSpec{Activation: spec.DenseActivation}); err != nil {
		return nil, err
	}
	if d.matrix, err = loadMatrix(m, model.Ref{Role: model.HeadDense}); err != nil {
		return nil, err
	}
	if d.bias, err = loadFloats(m, model.Ref{Role: model.HeadDenseBias}); err != nil {
		return nil, err
	}
	d.norm, err = loadNorm(m, model.NormSpec{Kind: model.LayerNorm, Eps: spec.DenseEps}, model.Ref{Role: model.HeadNorm})
	return d, err
}

// apply changes the first rows of the step's norm. It uses block.
func (d *headDense) apply(s *lane, rows int) {
	p, width := s.workers(), d.matrix.N
	matMul(p, s.block, s.norm, rows, d.matrix)
	eachRow(p, rows, 2*width, func(from, to int) {
		addBias(s.block, d.bias, from, to)
		d.activate(s.block, s.block, from, to, width)
	})
	d.norm.apply(p, s.norm, s.block, rows)
}
