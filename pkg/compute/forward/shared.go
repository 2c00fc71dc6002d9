package forward

import (
	"context"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// shared is an expert that all rows pass.
type shared struct {
	*ffn
	gate *cpu.Matrix // (1, D), whose sigmoid scales a row's output; or nil
}

//nolint:contextcheck,nolintlint // the backbone is loaded whole, before anybody waits for a request
func loadShared(m *model.Model, l int) (_ *shared, err error) {
	spec, s := &m.Spec.Layer[l].Shared, &shared{}
	if s.ffn, err = loadFFN(context.Background(), cpu.Packer{}, m, refsOf(spec.FFNSpec, l, 0, model.SharedRoles)); err != nil {
		return nil, err
	}
	if spec.Gated {
		s.gate, err = loadMatrix(m, model.Ref{Role: model.SharedRouter, Layer: l})
	}
	return s, err
}

// sharedExpert fills shared (R, D) from x (R, D).
func (s *lane) sharedExpert(e *shared, x []float32) {
	s.feed(e.ffn, s.shared, x)
	if e.gate == nil {
		return
	}
	n, d := len(s.rows), s.spec.Hidden
	gate := reuse.Slice(s.inner, n)
	eachRow(s.workers(), n, matMulNanos(1, e.gate)+d/addedPerNano, func(from, to int) {
		cpu.MatMul(gate[from:], 1, x[from*d:], d, to-from, e.gate, 0, e.gate.Panels())
		for r := from; r < to; r++ {
			cpu.Scale(s.shared[r*d:(r+1)*d], cpu.Sigmoid(gate[r]))
		}
	})
}
