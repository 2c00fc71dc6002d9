package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// lookUp finds a stored tensor by its name.
type lookUp func(name string) (Tensor, bool)

// resolved is a role's tensor within what is stored.
type resolved struct {
	at     TensorRef
	expert int
	shape  []int  // as the role has it
	stored Tensor // numbers or codes, Data perhaps missing
	scales Tensor // of quantised ones
}

// resolve finds what a role's tensor is made of, and checks dtypes and shapes.
// Of an expert's tensor, ref says which of experts it is.
func resolve(at TensorRef, ref Ref, want []int, experts int, in lookUp) (*resolved, error) {
	if err := at.check(want); err != nil {
		return nil, err
	}
	r := &resolved{at: at, shape: want}
	if at.Stacked {
		r.expert = ref.Expert
	}
	found := []*Tensor{&r.stored, &r.scales}
	for i, name := range at.names() {
		t, ok := in(name)
		if !ok {
			return nil, fmt.Errorf("tensor %q is missing", name)
		}
		if shape := at.shapes(want, experts)[i]; !slices.Equal(t.Shape, shape) {
			return nil, fmt.Errorf("tensor %q has shape %v, config.json makes it %v", name, t.Shape, shape)
		}
		if types := at.dtypes()[i]; !slices.Contains(types, t.DType) {
			return nil, fmt.Errorf("tensor %q is %s; supported here are %v", name, t.DType, types)
		}
		*found[i] = t
	}
	return r, nil
}

// check refuses what no published layout has, and matrices that blocks do not fill.
func (t TensorRef) check(want []int) error {
	switch {
	case t.Dequant == MXFP4 && (len(want) != 2 || want[1]%cpu.MXBlock != 0 || t.Transposed):
		return fmt.Errorf("tensor %q of shape %v cannot be MXFP4, which has blocks of %d inputs", t.Name, want, cpu.MXBlock)
	case t.Dequant == FP8Blocks && (len(want) != 2 || t.Transposed || t.Stacked || t.Part.Count > 1):
		return fmt.Errorf("tensor %q holds parts in FP8, which is not supported", t.Name)
	}
	return nil
}

// shapes are those of the stored tensors of a role's tensor of shape want, in
// the order of names.
func (t TensorRef) shapes(want []int, experts int) [][]int {
	body := slices.Clone(want)
	body[0] *= max(1, t.Part.Count)
	all := [][]int{body}
	switch {
	case t.Dequant == MXFP4:
		blocks := body[1] / cpu.MXBlock
		all = [][]int{{body[0], blocks, cpu.MXBlock / 2}, {body[0], blocks}}
	case t.Dequant == FP8Blocks:
		all = append(all, []int{cpu.FP8Scales(body[0]), cpu.FP8Scales(body[1])})
	case t.Transposed:
		slices.Reverse(body)
	}
	if t.Stacked {
		for i := range all {
			all[i] = append([]int{experts}, all[i]...)
		}
	}
	return all
}

// dtypes are the supported types of the stored tensors, in the order of names.
func (t TensorRef) dtypes() [][]safetensors.DType {
	switch t.Dequant {
	case MXFP4:
		return [][]safetensors.DType{{safetensors.U8}, {safetensors.U8, safetensors.E8M0}}
	case FP8Blocks:
		return [][]safetensors.DType{{safetensors.E4M3}, {safetensors.F32, safetensors.BF16}}
	}
	return [][]safetensors.DType{{safetensors.BF16, safetensors.F16, safetensors.F32}}
}

// describe is the role's tensor without Data. The elements of a quantised one are
// its codes.
func (r *resolved) describe() Tensor {
	t := Tensor{Name: strings.Join(r.at.names(), " with "), DType: r.stored.DType, Shape: r.shape}
	if r.at.Dequant == MXFP4 {
		t.DType = safetensors.F4
	}
	return t
}

// bytes are those of the stored elements and scales.
func (r *resolved) bytes() int64 {
	t := r.describe()
	n := int64(t.Len()) * int64(t.DType.Bits()) / 8
	if r.at.Dequant != Plain {
		n += int64(r.scales.Len()*r.scales.DType.Size()) / int64(r.parts())
	}
	return n
}

// parts is how many tensors of the role's size the stored one holds.
func (r *resolved) parts() int {
	n := max(1, r.at.Part.Count)
	if r.at.Stacked {
		n *= max(1, r.stored.Shape[0])
	}
	return n
}

// tensor is the role's tensor: a view where its elements lie together as they
// should, else a copy. Nothing else of what is stored is read.
func (r *resolved) tensor() Tensor {
	t := r.describe()
	t.Data = r.gather(r.stored.Data)
	return aligned(t)
}

// gather picks the role's part from the data of the stored tensor or of its scales.
func (r *resolved) gather(data []byte) []byte {
	if r.at.Stacked {
		size := len(data) / max(1, r.stored.Shape[0])
		data = data[r.expert*size:][:size]
	}
	if r.at.Transposed && len(r.shape) == 2 {
		return transpose(data, r.at.Part, r.shape[0], r.shape[1], r.stored.DType.Size())
	}
	return pick(data, r.at.Part, r.shape[0])
}
