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
	zeros  Tensor // codes for zero, of those in int4
	order  Tensor // the inputs' groups, of those in GPTQ
	sizes  Tensor // the shape, of those in groups
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
	found := []*Tensor{&r.stored, &r.scales, &r.zeros, &r.order}
	if at.Dequant.Grouped() {
		found[2] = &r.sizes
	}
	shapes, types := at.shapes(want, experts), at.dtypes()
	for i, name := range at.names() {
		t, ok := in(name)
		if !ok {
			return nil, fmt.Errorf("tensor %q is missing", name)
		}
		if !at.fits(t.Shape, shapes[i]) {
			return nil, fmt.Errorf("tensor %q has shape %v, config.json makes it %v", name, t.Shape, shapes[i])
		}
		if !slices.Contains(types[i], t.DType) {
			return nil, fmt.Errorf("tensor %q is %s; supported here are %v", name, t.DType, types[i])
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
	case t.Dequant.Int4() && (len(want) != 2 || want[0]%perWord != 0 || want[1]%perWord != 0 || t.Transposed || t.Stacked || t.Part.Count > 1):
		return fmt.Errorf("tensor %q of shape %v in int4 is not supported: it holds parts, or its sides are no multiples of %d", t.Name, want, perWord)
	case t.Dequant.Grouped() && (len(want) != 2 || want[1]%cpu.QGroup != 0 || t.Transposed):
		return fmt.Errorf("tensor %q of shape %v cannot be in groups of %d inputs", t.Name, want, cpu.QGroup)
	case t.Dequant.Grouped() && want[1]%t.groupOf(want[1]) != 0:
		return fmt.Errorf("tensor %q of shape %v cannot be in groups of %d inputs", t.Name, want, t.Group)
	}
	return nil
}

func (t TensorRef) fits(shape, want []int) bool {
	return slices.Equal(shape, want) || t.Flat && slices.Equal(shape, want[1:])
}

// shapes returns those of the stored tensors of a role's tensor of shape want, in
// the order of names.
func (t TensorRef) shapes(want []int, experts int) [][]int {
	body := slices.Clone(want)
	body[0] *= max(1, t.Part.Count)
	all := [][]int{body}
	switch {
	case t.Dequant == MXFP4:
		blocks := body[1] / cpu.MXBlock
		all = [][]int{{body[0], blocks, cpu.MXBlock / 2}, {body[0], blocks}}
	case t.Dequant.Int4():
		all = t.int4Shapes(body[0], body[1])
	case t.Dequant.Grouped():
		all = t.groupedShapes(body[0], body[1])
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

// dtypes returns the supported types of the stored tensors, in the order of names.
func (t TensorRef) dtypes() [][]safetensors.DType {
	switch t.Dequant {
	case MXFP4:
		return [][]safetensors.DType{{safetensors.U8}, {safetensors.U8, safetensors.E8M0}}
	case FP8Blocks:
		return [][]safetensors.DType{{safetensors.E4M3}, {safetensors.F32, safetensors.BF16}}
	case GPTQ, GPTQ2, AWQ:
		words := []safetensors.DType{safetensors.I32}
		return [][]safetensors.DType{words, {safetensors.F16, safetensors.BF16}, words, words}
	case Grouped8, Grouped4:
		return [][]safetensors.DType{{safetensors.I32}, {safetensors.BF16}, {safetensors.I64, safetensors.I32}}
	}
	if t.Transposed {
		return [][]safetensors.DType{plainTypes}
	}
	return [][]safetensors.DType{plainOrBlocks}
}

// plainTypes are those of numbers, plainOrBlocks also those of GGUF's blocks.
var (
	plainTypes    = []safetensors.DType{safetensors.BF16, safetensors.F16, safetensors.F32}
	plainOrBlocks = slices.Concat(plainTypes, safetensors.Blocks())
)

// describe returns the role's tensor without Data. The elements of a quantised one are
// its codes, but those in int4 and in groups become numbers.
func (r *resolved) describe() Tensor {
	t := Tensor{Name: strings.Join(r.at.names(), " with "), DType: r.stored.DType, Shape: r.shape}
	switch {
	case r.at.Dequant == MXFP4:
		t.DType = safetensors.F4
	case r.at.Dequant.Int4(), r.at.Dequant.Grouped():
		t.DType = safetensors.F32 // who takes the codes asks for them
	}
	return t
}

// bytes returns those of the stored elements and scales.
func (r *resolved) bytes() int64 {
	if r.at.Dequant.Int4() || r.at.Dequant.Grouped() {
		return (bytesOf(r.stored)+bytesOf(r.scales)+bytesOf(r.sizes))/int64(r.parts()) + bytesOf(r.zeros) + bytesOf(r.order)
	}
	t := r.describe()
	n := t.DType.Bytes(int64(t.Len()))
	if r.at.Dequant != Plain {
		n += int64(r.scales.Len()*r.scales.DType.Size()) / int64(r.parts())
	}
	return n
}

func bytesOf(t Tensor) int64 { return t.DType.Bytes(int64(t.Len())) }

// parts returns how many tensors of the role's size the stored one holds.
func (r *resolved) parts() int {
	n := max(1, r.at.Part.Count)
	if r.at.Stacked {
		n *= max(1, r.stored.Shape[0])
	}
	return n
}

// tensor returns the role's tensor: a view where its elements lie together as they
// should, else a copy. Nothing else of what is stored is read.
func (r *resolved) tensor() Tensor {
	t := r.describe()
	t.Data = r.gather(r.stored.Data)
	return aligned(t)
}

// gather picks the role's part from the data of the stored tensor or of its scales.
func (r *resolved) gather(data []byte) []byte {
	data = r.own(data)
	if r.at.Transposed && len(r.shape) == 2 {
		return transpose(data, r.at.Part, r.shape[0], r.shape[1], r.stored.DType.Size())
	}
	data = pick(data, r.at.Part, r.shape[0])
	if r.at.Paired {
		return unpair(data, r.shape[0], r.at.Heads)
	}
	return data
}

// own returns the part of an expert's tensor in stacked data, else all of it.
func (r *resolved) own(data []byte) []byte {
	if !r.at.Stacked {
		return data
	}
	size := len(data) / max(1, r.stored.Shape[0])
	return data[r.expert*size:][:size]
}
