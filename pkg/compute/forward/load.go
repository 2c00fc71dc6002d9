package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// layout is the shape (n, k) and type of a matrix before it is packed.
type layout struct {
	n, k int
	bf16 bool
}

// layoutOf is that of the tensors of refs, one below the other. It reads no
// weights. What is not all bf16 is packed as float32.
func layoutOf(m *model.Model, refs ...model.Ref) (layout, error) {
	l := layout{bf16: true}
	for _, ref := range refs {
		t, err := m.Stat(ref)
		if err != nil {
			return layout{}, fmt.Errorf("loading weights: %w", err)
		}
		l.n, l.k, l.bf16 = l.n+t.Shape[0], t.Shape[1], l.bf16 && t.DType == safetensors.BF16
	}
	return l, nil
}

// bytes is what the packed matrix takes.
func (l layout) bytes() int64 {
	if l.bf16 {
		return cpu.PackedBytes(l.n, l.k, cpu.BF16)
	}
	return cpu.PackedBytes(l.n, l.k, cpu.F32)
}

// loadMatrix packs the tensors of refs, one below the other, as one matrix:
// those that share an input are computed in one call.
func loadMatrix(m *model.Model, refs ...model.Ref) (*cpu.Matrix, error) {
	l, err := layoutOf(m, refs...)
	if err != nil {
		return nil, err
	}
	if !l.bf16 {
		return stackFloats(m, refs, l)
	}
	return stackBF16(m, refs, l)
}

func stackBF16(m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	var raw []byte
	for _, ref := range refs {
		t, err := m.Tensor(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		if len(refs) == 1 {
			return cpu.PackBF16(t.Data, l.n, l.k), nil // without a copy
		}
		raw = append(raw, t.Data...)
	}
	return cpu.PackBF16(raw, l.n, l.k), nil
}

func stackFloats(m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	all := make([]float32, 0, l.n*l.k)
	for _, ref := range refs {
		f, err := m.Floats(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		all = append(all, f...)
	}
	return cpu.PackF32(all, l.n, l.k), nil
}

// loadFloats reads vectors, one after the other.
func loadFloats(m *model.Model, refs ...model.Ref) (all []float32, err error) {
	for _, ref := range refs {
		f, err := m.Floats(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		all = append(all, f...)
	}
	return all, nil
}
