package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/model"
	"github.com/switchyard/switchyard/pkg/safetensors"
)

// loadMatrix packs the tensors of refs, one below the other, as one matrix:
// those that share an input are computed in one call.
func loadMatrix(m *model.Model, refs ...model.Ref) (*cpu.Matrix, error) {
	if len(refs) == 1 {
		t, err := m.Tensor(refs[0])
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		if t.DType == safetensors.BF16 {
			return cpu.PackBF16(t.Data, t.Shape[0], t.Shape[1]), nil
		}
	}
	return stackMatrix(m, refs)
}

func stackMatrix(m *model.Model, refs []model.Ref) (*cpu.Matrix, error) {
	var raw []byte
	n, k, bf16 := 0, 0, true
	tensors := make([]model.Tensor, len(refs))
	for i, ref := range refs {
		t, err := m.Tensor(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		tensors[i] = t
		n, k, bf16 = n+t.Shape[0], t.Shape[1], bf16 && t.DType == safetensors.BF16
	}
	if !bf16 {
		return stackFloats(m, refs, n, k)
	}
	for _, t := range tensors {
		raw = append(raw, t.Data...)
	}
	return cpu.PackBF16(raw, n, k), nil
}

func stackFloats(m *model.Model, refs []model.Ref, n, k int) (*cpu.Matrix, error) {
	all := make([]float32, 0, n*k)
	for _, ref := range refs {
		f, err := m.Floats(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		all = append(all, f...)
	}
	return cpu.PackF32(all, n, k), nil
}
