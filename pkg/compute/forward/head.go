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

// headBytes is how many bytes of the head's weights each thread may read, where each takes some rows: logits of a
// row are written where the thread that chooses its token may have them already.
const headBytes = 4 << 20

// Logits normalises and multiplies as many rows as logitsAtOnce allows.
func (s *lane) Logits(rows []int) ([]float32, error) {
	n, threads := min(len(rows), max(1, cmp.Or(s.atOnce, logitsAtOnce)/s.head.matrix.N)), 1
	rows = rows[:n]
	if s.p != nil {
		threads = s.p.Threads()
	}
	s.logits = reuse.Slice(s.logits, n*s.head.matrix.N)
	if threads == 1 || n < threads*shareRows || s.head.matrix.Bytes() > headBytes {
		s.logitsOf(s.workers(), rows, 0, n)
		return s.logits, nil
	}
	s.p.Run(threads, func(i int) { s.logitsOf(workers{nil, s.progress}, rows, i*n/threads, (i+1)*n/threads) })
	return s.logits, nil
}

// logitsOf is those of rows[from:to].
func (s *lane) logitsOf(p workers, rows []int, from, to int) {
	h, d := &s.head, s.spec.Hidden
	norm, logits := s.norm[from*d:to*d], s.logits[from*s.head.matrix.N:to*s.head.matrix.N]
	for n, i := range rows[from:to] {
		copy(norm[n*d:(n+1)*d], s.x[i*d:(i+1)*d])
	}
	h.norm.apply(p, norm, norm, to-from)
	if h.dense != nil {
		h.dense.apply(p, norm, s.block[from*d:to*d], to-from)
	}
	matMul(p, logits, norm, to-from, h.matrix)
	if h.bias != nil {
		addBias(logits, h.bias, 0, to-from)
	}
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

// apply changes rows x (R, D). It uses block (R, D).
func (d *headDense) apply(p workers, x, block []float32, rows int) {
	width := d.matrix.N
	matMul(p, block, x, rows, d.matrix)
	eachRow(p, rows, 2*width, func(from, to int) {
		addBias(block, d.bias, from, to)
		d.activate(block, block, from, to, width)
	})
	d.norm.apply(p, x, block, rows)
}
